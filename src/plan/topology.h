// The tiers of a machine and the lanes of work and transfers between them, as data: another tier is
// added here, with the lanes that lead to it, and its memory is given when a program is run.
// Everything that lays out, simulates, runs or shows programs loops over these.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "base/list.h"
#include "plan/types.h"

namespace ebb::plan {

struct TierInfo {
  std::string name;
  Bytes alignment = kAlignment;  // of objects and of transfers from and to it
  bool addressable = true;       // tasks compute on it; else transfers alone reach it
  Bytes largest_transfer = 0;    // longer ones are cut; 0: any length
};

enum class LaneKind : std::uint8_t { compute, cpu, transfer, network };

// The transfers that a lane takes. A lane keeps its order: what waits for a slow tier, or is small
// and urgent, has lanes of its own where there are some.
enum class Traffic : std::uint8_t {
  bulk,
  express,  // small and urgent
  through,  // on its way from a tier beyond, or to one
};

struct LaneInfo {
  std::string name;
  LaneKind kind = LaneKind::transfer;
  // For lanes of transfers; one of the network has a rate alone:
  Tier from{};
  Tier to{};
  Traffic traffic = Traffic::bulk;
  // What a transfer gets when it is alone; 0 where the machine's profile knows the lane.
  double bytes_per_second = 0;
};

struct Topology {
  List<TierInfo> tiers;
  List<LaneInfo> lanes;

  // Throw std::length_error past kMostTiers and kMostLanes.
  Tier add(TierInfo);
  Lane add(LaneInfo);

  const TierInfo& operator[](Tier tier) const { return tiers.at(tier.index); }
  const LaneInfo& operator[](Lane lane) const { return lanes.at(lane.index); }
  auto all_tiers() const {
    return std::views::iota(std::size_t{0}, tiers.size()) |
           std::views::transform([](std::size_t i) { return Tier{static_cast<std::uint8_t>(i)}; });
  }
  auto all_lanes() const {
    return std::views::iota(std::size_t{0}, lanes.size()) |
           std::views::transform([](std::size_t i) { return Lane{static_cast<std::uint8_t>(i)}; });
  }

  // The lane of the direct way between two tiers, nothing where there is none: one for such
  // traffic, or else a bulk one. Of several bulk lanes, transfers with numbers take turns.
  std::optional<Lane> link(Tier from, Tier to, Traffic traffic = Traffic::bulk,
                           std::size_t number = 0) const;
  // The lane of what crosses the network; nothing where there is one rank.
  std::optional<Lane> network() const;
  // The tiers of the shortest way, both ends included. Throws std::invalid_argument where no lanes
  // lead from one to the other.
  List<Tier> route(Tier from, Tier to) const;
};

// A device and a host with a link between them: the lanes that Lane names.
std::shared_ptr<const Topology> device_and_host();

// The same with a network that joins host memory with that of other ranks, on a lane of its own.
std::shared_ptr<const Topology> with_network(const Topology&, double bytes_per_second);
// Between ranks of one machine, by rule of thumb.
inline constexpr double kRoughNetwork = 4e9;

// Bytes by tier; 0 where nothing was said.
struct Limits : PerTier<Bytes> {
  Limits() = default;
  Limits(std::initializer_list<std::pair<Tier, Bytes>> given) {
    for (const auto& [tier, bytes] : given) (*this)[tier] = bytes;
  }
};

}  // namespace ebb::plan
