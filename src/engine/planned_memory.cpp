#include "engine/planned_memory.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "memory/arena.h"

namespace ebb::engine {
namespace {

std::deque<memory::Ledger> make_ledgers(const plan::Plan& plan) {
  const plan::Topology& topology = *plan.workload.topology;
  std::deque<memory::Ledger> ledgers;
  for (const plan::Tier tier : topology.all_tiers()) {
    ledgers.emplace_back(topology[tier].name, plan.limits[tier]);
  }
  return ledgers;
}

// All that the plan counts, before any of it is taken.
std::vector<memory::Reservation> reserve_all(const plan::Plan& plan,
                                             std::deque<memory::Ledger>& ledgers) {
  std::vector<memory::Reservation> all;
  const auto reserve = [&](plan::Tier tier, const std::string& purpose, Bytes bytes) {
    all.push_back(ledgers[tier.index].reserve(purpose, bytes));
  };
  for (const plan::Tier tier : plan.workload.topology->all_tiers()) {
    reserve(tier, "arena", plan.layout.size_of(tier));
  }
  for (const plan::Extra& extra : plan.workload.extras) {
    reserve(extra.tier, extra.name, extra.bytes);
  }
  // The rest of the predicted peak is what the program itself takes.
  reserve(plan::Tier::host, std::string(plan::kPlanExtra),
          plan.peak(plan::Tier::host) - plan.layout.size_of(plan::Tier::host) -
              plan.workload.extra(plan::Tier::host));
  return all;
}

std::vector<std::unique_ptr<memory::Space>> make_spaces(
    device::Device& device, const plan::Plan& plan, const PlannedMemory::MakeSpace& make_space) {
  const plan::Topology& topology = *plan.workload.topology;
  std::vector<std::unique_ptr<memory::Space>> spaces;
  for (const plan::Tier tier : topology.all_tiers()) {
    const Bytes bytes = plan.layout.size_of(tier);
    if (tier == plan::Tier::device || tier == plan::Tier::host) {
      spaces.push_back(std::make_unique<memory::Arena>(
          topology[tier].name, tier == plan::Tier::device ? device.allocate_device(bytes)
                                                          : device.allocate_host(bytes)));
    } else {
      spaces.push_back(make_space(tier, bytes));
    }
  }
  return spaces;
}

}  // namespace

PlannedMemory::PlannedMemory(Runtime& runtime, const plan::Plan& plan, const MakeSpace& make_space)
    : ledgers_(make_ledgers(plan)),
      reservations_(reserve_all(plan, ledgers_)),
      device_is_host_(runtime.device().kind() == "cpu"),
      spaces_(make_spaces(runtime.device(), plan, make_space)) {}

PlannedMemory::~PlannedMemory() {
  const bool stalled = std::any_of(spaces_.begin(), spaces_.end(),
                                   [](const auto& space) { return space->stalled(); });
  // A drive that does not answer may still write into memory that it was given: that memory must
  // stay.
  if (!stalled) return;
  static std::mutex mutex;
  static auto* const left = new std::vector<std::unique_ptr<memory::Space>>;  // never destroyed
  std::lock_guard lock(mutex);
  for (auto& space : spaces_) left->push_back(std::move(space));
}

std::vector<memory::Space*> PlannedMemory::spaces() const {
  std::vector<memory::Space*> pointers;
  for (const auto& space : spaces_) pointers.push_back(space.get());
  return pointers;
}

std::optional<Bytes> PlannedMemory::touched_bytes(plan::Tier tier) const {
  if (tier == plan::Tier::device && !device_is_host_) return std::nullopt;
  return space(tier).touched_bytes();
}

Bytes PlannedMemory::measured_peak(plan::Tier tier) const {
  return space(tier).high_water() + ledger(tier).peak() - space(tier).size();
}

void prepare_spaces(const plan::Plan& plan, PlannedMemory& memory) {
  constexpr Bytes most = 4 * kGiB;  // locking more takes long
  const memory::Space& host = memory.space(plan::Tier::host);
  for (const plan::Tier tier : plan.program.topology->all_tiers()) {
    if ((*plan.program.topology)[tier].addressable) continue;
    Bytes first = host.size(), end = 0;
    for (const plan::Task& task : plan.program.tasks) {
      const auto& lane = (*plan.program.topology)[task.lane];
      if (!task.is_transfer() || (lane.from != tier && lane.to != tier)) continue;
      for (const plan::Use& use : task.uses) {
        if (plan.program[use.object].tier != plan::Tier::host) continue;
        const Bytes at = plan.layout.offsets[use.object];
        first = std::min(first, at + use.range.first);
        end = std::max(end, at + use.range.first + plan.program.range_of(use).bytes);
      }
    }
    if (end > first && end - first <= most) {
      memory.space(tier).prepare(host.at(first, end - first), end - first);
    }
  }
}

}  // namespace ebb::engine
