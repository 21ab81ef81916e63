// The memory of a plan: one space a tier, of exactly the layout's size, booked in a ledger that
// knows the limit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/runtime.h"
#include "memory/ledger.h"
#include "memory/space.h"
#include "plan/candidate.h"

namespace ebb::engine {

// Host memory that a task of a program takes, at most, on top of what it works on: in its plan and
// while that is made (about 1 KiB), and in the queues and events of a run. Tests measure it.
inline constexpr Bytes kTaskBytes = 2 * kKiB;
// And for each step that a trace keeps: its times, and what writing them down takes.
inline constexpr Bytes kTracedTaskBytes = 512;
// With a trace of the last so many steps, three more are kept.
constexpr Bytes task_bytes(std::int64_t traced_steps) {
  return kTaskBytes + (traced_steps > 0 ? (traced_steps + 3) * kTracedTaskBytes : 0);
}

class PlannedMemory {
 public:
  // Makes the memory of a tier that is neither the device's nor the host's.
  using MakeSpace = std::function<std::unique_ptr<memory::Space>(plan::Tier, Bytes)>;

  // Books all that the plan counts (throws OutOfBudget), and takes the arenas then.
  PlannedMemory(Runtime& runtime, const plan::Plan& plan, const MakeSpace& make_space = {});
  // Memory that a stalled device may still write to is left to the end of the process.
  ~PlannedMemory();
  PlannedMemory(const PlannedMemory&) = delete;
  PlannedMemory& operator=(const PlannedMemory&) = delete;

  memory::Space& space(plan::Tier tier) const { return *spaces_.at(tier.index); }
  std::vector<memory::Space*> spaces() const;  // by tier
  const memory::Ledger& ledger(plan::Tier tier) const { return ledgers_.at(tier.index); }

  // The most bytes in use so far: those that tasks said they touched, and what was reserved beside
  // the arenas.
  Bytes measured_peak(plan::Tier tier) const;
  // What the system gave the tier's arena pages for; nothing for what is not the process's memory.
  std::optional<Bytes> touched_bytes(plan::Tier tier) const;

 private:
  std::deque<memory::Ledger> ledgers_;  // by tier
  std::vector<memory::Reservation> reservations_;
  bool device_is_host_;  // the device tier is the process's memory too
  std::vector<std::unique_ptr<memory::Space>> spaces_;  // by tier
};

// Tiers without addresses learn which part of host memory they will trade with. Before the first
// run of the program.
void prepare_spaces(const plan::Plan& plan, PlannedMemory& memory);

}  // namespace ebb::engine
