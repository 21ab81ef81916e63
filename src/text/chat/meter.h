// The memory that a rendering's values hold at once. Values are made in a hundred places that know
// no budget, and their end must be counted too: so a thread has one meter at a time, and what is
// made meanwhile counts itself there for as long as it lives.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace ebb::text::jinja {

// Outlives all that was counted in it. For one thread.
class Meter {
 public:
  explicit Meter(std::size_t most) : most_(most) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Throws Failure beyond the most.
  void take(std::size_t bytes) {
    if (bytes > most_ - held_) full();
    held_ += bytes;
  }
  void give_back(std::size_t bytes) { held_ -= bytes; }

 private:
  [[noreturn]] void full() const;

  std::size_t most_;
  std::size_t held_ = 0;
};

// The calling thread's meter while this lives, instead of the one before.
class Metering {
 public:
  explicit Metering(Meter& meter);
  ~Metering();
  Metering(const Metering&) = delete;
  Metering& operator=(const Metering&) = delete;

 private:
  Meter* before_;
};

// Bytes that are counted in the meter that the thread had when this was made; in none where it had
// none.
class Charge {
 public:
  explicit Charge(std::size_t bytes = 0);
  Charge(Charge&& other) noexcept
      : meter_(std::exchange(other.meter_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (meter_) meter_->give_back(bytes_);
  }

  void resize(std::size_t bytes) {
    if (meter_ && bytes > bytes_) meter_->take(bytes - bytes_);
    if (meter_ && bytes < bytes_) meter_->give_back(bytes_ - bytes);
    bytes_ = bytes;
  }

 private:
  Meter* meter_;
  std::size_t bytes_;
};

// A string of a value, of which there may be very many.
struct HeldText : std::string {
  explicit HeldText(std::string text)
      : std::string(std::move(text)),
        charge(sizeof(HeldText) + kOverhead + (capacity() > kInside ? capacity() + kOverhead : 0)) {
  }
  static constexpr std::size_t kInside = 15;    // bytes that need no allocation
  static constexpr std::size_t kOverhead = 32;  // of an allocation and of shared ownership

  Charge charge;
};

// What a template writes, counted as it grows: after each addition, count().
struct Output {
  std::string text{};
  Charge charge{};

  void count() { charge.resize(text.capacity()); }
  std::string take() {
    charge.resize(0);
    return std::move(text);
  }
};

}  // namespace ebb::text::jinja
