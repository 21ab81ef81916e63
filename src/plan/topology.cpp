#include "plan/topology.h"

#include <algorithm>
#include <stdexcept>

namespace ebb::plan {

Tier Topology::add(TierInfo tier) {
  if (tiers.size() == kMostTiers) throw std::length_error("a topology of too many tiers");
  tiers.push_back(std::move(tier));
  return {static_cast<std::uint8_t>(tiers.size() - 1)};
}

Lane Topology::add(LaneInfo lane) {
  if (lanes.size() == kMostLanes) throw std::length_error("a topology of too many lanes");
  lanes.push_back(std::move(lane));
  return {static_cast<std::uint8_t>(lanes.size() - 1)};
}

std::optional<Lane> Topology::link(Tier from, Tier to, Traffic traffic, std::size_t number) const {
  std::array<Lane, kMostLanes> bulk;
  std::size_t count = 0;
  for (const Lane lane : all_lanes()) {
    const LaneInfo& info = (*this)[lane];
    if (info.kind != LaneKind::transfer || info.from != from || info.to != to) continue;
    if (info.traffic == Traffic::bulk) {
      bulk[count++] = lane;
    } else if (info.traffic == traffic) {
      return lane;
    }
  }
  return count == 0 ? std::nullopt : std::optional(bulk[number % count]);
}

std::optional<Lane> Topology::network() const {
  for (const Lane lane : all_lanes()) {
    if ((*this)[lane].kind == LaneKind::network) return lane;
  }
  return std::nullopt;
}

List<Tier> Topology::route(Tier from, Tier to) const {
  List<List<Tier>> ways = {{from}};
  PerTier<bool> seen;
  seen[from] = true;
  for (std::size_t next = 0; next < ways.size(); ++next) {
    const List<Tier> way = ways[next];
    if (way.back() == to) return way;
    for (const Tier tier : all_tiers()) {
      if (seen[tier] || !link(way.back(), tier)) continue;
      seen[tier] = true;
      ways.push_back(way);
      ways.back().push_back(tier);
    }
  }
  throw std::invalid_argument("no lanes lead from the tier '" + (*this)[from].name + "' to '" +
                              (*this)[to].name + "'");
}

std::shared_ptr<const Topology> with_network(const Topology& topology, double bytes_per_second) {
  Topology joined = topology;
  joined.add(
      LaneInfo{.name = "net", .kind = LaneKind::network, .bytes_per_second = bytes_per_second});
  return std::make_shared<const Topology>(std::move(joined));
}

std::shared_ptr<const Topology> device_and_host() {
  static const auto topology = std::make_shared<const Topology>(
      Topology{.tiers = {{.name = "device"}, {.name = "host"}},
               .lanes = {{.name = "compute", .kind = LaneKind::compute},
                         {.name = "up", .from = Tier::host, .to = Tier::device},
                         {.name = "down", .from = Tier::device, .to = Tier::host},
                         {.name = "host", .kind = LaneKind::cpu},
                         {.name = "express up",
                          .from = Tier::host,
                          .to = Tier::device,
                          .traffic = Traffic::express},
                         {.name = "express down",
                          .from = Tier::device,
                          .to = Tier::host,
                          .traffic = Traffic::express}}});
  return topology;
}

}  // namespace ebb::plan
