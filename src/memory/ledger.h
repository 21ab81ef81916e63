// The count of bytes per tier and purpose, with the limit enforced when memory is asked for. All
// memory of a run that scales with the work is reserved here before it is made.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "ebb/units.h"

namespace ebb::memory {

class Ledger;

// Bytes that are counted for as long as this lives.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

 private:
  friend class Ledger;
  Reservation(Ledger* ledger, std::string purpose, Bytes bytes);
  void release();

  Ledger* ledger_ = nullptr;
  std::string purpose_;
  Bytes bytes_ = 0;
};

// One tier's books. Any thread. Outlives its reservations.
class Ledger {
 public:
  Ledger(std::string tier, Bytes limit) : tier_(std::move(tier)), limit_(limit) {}

  // Throws OutOfBudget with the books so far when it would go over the limit.
  [[nodiscard]] Reservation reserve(const std::string& purpose, Bytes bytes);

  Bytes limit() const { return limit_; }
  Bytes held() const;
  Bytes peak() const;
  // What is held now, by purpose.
  std::map<std::string, Bytes> by_purpose() const;

 private:
  friend class Reservation;
  void give_back(const std::string& purpose, Bytes bytes);

  const std::string tier_;
  const Bytes limit_;
  mutable std::mutex mutex_;
  std::map<std::string, Bytes> by_purpose_;
  Bytes held_ = 0;
  Bytes peak_ = 0;
};

}  // namespace ebb::memory
