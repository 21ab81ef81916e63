// The plan room turns limits and a machine's profile into a program of tasks, gives every object of
// it an address, and predicts what a step costs. Numbers only: it knows no model, no device and no
// memory. The engine runs the very same program.
//
// The types all of it is written in:
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/chunking.h"
#include "ebb/units.h"

namespace ebb::plan {

// A tier of a topology (topology.h), by number. Every topology has these two first.
struct Tier {
  std::uint8_t index = 0;
  static const Tier device;
  static const Tier host;
  friend constexpr auto operator<=>(Tier, Tier) = default;
};
inline constexpr Tier Tier::device{0};
inline constexpr Tier Tier::host{1};

// A queue that runs its tasks in order, beside the other lanes; by number. Every topology has these
// first: the device's, those of the link between device and host memory, and the CPU's. What is
// small and urgent has lanes of its own on the link, or it would wait behind gigabytes.
struct Lane {
  std::uint8_t index = 0;
  static const Lane compute;
  static const Lane up;
  static const Lane down;
  static const Lane host;
  static const Lane express_up;
  static const Lane express_down;
  friend constexpr auto operator<=>(Lane, Lane) = default;
};
inline constexpr Lane Lane::compute{0};
inline constexpr Lane Lane::up{1};
inline constexpr Lane Lane::down{2};
inline constexpr Lane Lane::host{3};
inline constexpr Lane Lane::express_up{4};
inline constexpr Lane Lane::express_down{5};

// Values by tier or by lane, for as many as any topology may have.
template <class Key, class T, std::size_t kMost>
struct PerKey {
  std::array<T, kMost> values{};
  T& operator[](Key key) { return values[key.index]; }
  const T& operator[](Key key) const { return values[key.index]; }
  void fill(const T& value) { values.fill(value); }
  friend bool operator==(const PerKey&, const PerKey&) = default;
};
inline constexpr std::size_t kMostTiers = 8;
inline constexpr std::size_t kMostLanes = 16;
template <class T>
using PerTier = PerKey<Tier, T, kMostTiers>;
template <class T>
using PerLane = PerKey<Lane, T, kMostLanes>;

// The processor that updates a chunk.
enum class Place : std::uint8_t { device, cpu };

using ebb::Site;

// The purpose of bytes, in tables that people read.
enum class Purpose : std::uint8_t {
  weights,
  states,
  gradients,
  activations,
  cache,
  workspace,
  batch
};
inline constexpr std::array kPurposes = {Purpose::weights,     Purpose::states, Purpose::gradients,
                                         Purpose::activations, Purpose::cache,  Purpose::workspace,
                                         Purpose::batch};

// Bytes of an object.
struct Range {
  Bytes first = 0;
  Bytes bytes = -1;  // -1: all behind `first`
  friend bool operator==(const Range&, const Range&) = default;
};

using ebb::name_of;  // of a Site
std::string_view name_of(Purpose);

constexpr Bytes align_up(Bytes bytes, Bytes alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
// Every object starts at a multiple of this and is a multiple of it long, on every tier; a tier may
// ask for more.
inline constexpr Bytes kAlignment = 256;
constexpr Bytes align_up(Bytes bytes) { return align_up(bytes, kAlignment); }

}  // namespace ebb::plan
