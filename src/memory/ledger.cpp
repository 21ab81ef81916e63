#include "memory/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::memory {
namespace {

// What is asked for may be any number; what is held is none below 0.
Bytes saturating_sum(Bytes held, Bytes asked) {
  const Bytes most = std::numeric_limits<Bytes>::max();
  return asked > most - held ? most : held + asked;
}

}  // namespace

Reservation::Reservation(Ledger* ledger, std::string purpose, Bytes bytes)
    : ledger_(ledger), purpose_(std::move(purpose)), bytes_(bytes) {}

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      purpose_(std::move(other.purpose_)),
      bytes_(other.bytes_) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    purpose_ = std::move(other.purpose_);
    bytes_ = other.bytes_;
  }
  return *this;
}

Reservation::~Reservation() { release(); }

void Reservation::release() {
  if (ledger_ != nullptr) std::exchange(ledger_, nullptr)->give_back(purpose_, bytes_);
}

Reservation Ledger::reserve(const std::string& purpose, Bytes bytes) {
  std::lock_guard lock(mutex_);
  if (bytes < 0 || bytes > limit_ - held_) {
    std::string books;
    for (const auto& [name, held] : by_purpose_) {
      if (held > 0) books += fmt::format("\n  {}: {}", name, format_bytes(held));
    }
    throw OutOfBudget(
        fmt::format("{} memory: {} needs {}, {} available of {}{}", tier_, purpose,
                    format_bytes(bytes), format_bytes(limit_ - held_), format_bytes(limit_), books),
        {{tier_, saturating_sum(held_, bytes), limit_}});
  }
  held_ += bytes;
  by_purpose_[purpose] += bytes;
  peak_ = std::max(peak_, held_);
  return Reservation(this, purpose, bytes);
}

void Ledger::give_back(const std::string& purpose, Bytes bytes) {
  std::lock_guard lock(mutex_);
  held_ -= bytes;
  by_purpose_[purpose] -= bytes;
}

Bytes Ledger::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

Bytes Ledger::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

std::map<std::string, Bytes> Ledger::by_purpose() const {
  std::lock_guard lock(mutex_);
  return by_purpose_;
}

}  // namespace ebb::memory
