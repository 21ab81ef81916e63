// Of a run over several ranks another one failed, ended or did not answer.
#pragma once

#include <string>
#include <utility>

#include "ebb/error.h"

namespace ebb::dist {

class RankError : public Error {
 public:
  RankError(const std::string& text, int rank, std::string why)
      : Error(text), rank_(rank), why_(std::move(why)) {}

  // The rank that it is about, and the reason without its name.
  int rank() const { return rank_; }
  const std::string& why() const { return why_; }

 private:
  int rank_ = -1;
  std::string why_;
};

}  // namespace ebb::dist
