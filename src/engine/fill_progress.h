// Tells how far the weights of a model are, now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/note.h"
#include "model/parameters.h"

namespace ebb::engine {

class FillProgress {
 public:
  // `what` begins the line: "Loading weights".
  FillProgress(const model::Parameters& parameters, Note note, std::string what);

  // So many more are there.
  void add(std::size_t count);

 private:
  Note note_;
  std::string what_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace ebb::engine
