#include "engine/rank_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "base/json.h"
#include "base/machine.h"
#include "dist/connect.h"
#include "ebb/error.h"
#include "engine/rank_agreement.h"

namespace ebb::engine {
namespace {

void check_options(const TrainOptions& o, const dist::Launch& launch) {
  const auto refuse = [&](const std::string& flag, const std::string& why) {
    throw ConfigError(
        fmt::format("{}: {} started {} ranks, {}", flag, launch.launcher, launch.ranks, why));
  };
  if (launch.alone()) return;
  if (o.device != DeviceKind::cpu) {
    refuse("--device", "which train together on the cpu device alone so far: give --device cpu");
  }
  if (!o.disk.empty()) refuse("--disk", "which have no disk tier so far: leave it out");
}

// A launcher that binds each rank to cores of its own has divided them already.
bool is_bound() {
  cpu_set_t own;
  CPU_ZERO(&own);
  return sched_getaffinity(0, sizeof own, &own) == 0 &&
         CPU_COUNT(&own) < sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

RankGroup::RankGroup(const TrainOptions& options)
    : launch_(dist::find_launch(dist::process_environment())),
      exceptions_(std::uncaught_exceptions()) {
  check_options(options, launch_);
  ranks_ = dist::connect(launch_);
  if (alone()) return;
  watchdog_ = std::make_unique<dist::Watchdog>(
      ranks_->split(), dist::Communicator::Seconds(options.rank_timeout_seconds));
}

RankGroup::~RankGroup() {
  if (std::uncaught_exceptions() > exceptions_) ranks_->fail("an error has ended it");
}

int RankGroup::threads(int asked) const {
  if (alone() || asked > 0) return asked;
  return is_bound() ? usable_cpus() : std::max(1, usable_cpus() / launch_.local_ranks);
}

MachineMemory RankGroup::share_of(const MachineMemory& machine) const {
  return {.device = machine.device / launch_.local_ranks,
          .host = machine.host / launch_.local_ranks,
          .shared = machine.shared};
}

std::optional<std::filesystem::path> RankGroup::agree_on(
    const std::optional<std::filesystem::path>& path) {
  if (alone()) return path;
  const std::string first = ranks_->gather_to_all(path ? path->string() : "").front();
  return first.empty() ? std::nullopt : std::optional<std::filesystem::path>(first);
}

RankGroup::Signals RankGroup::agree_on(Signals own) {
  if (alone()) return own;
  List<Signals> all(count());
  ranks_->gather_to_all(&own, all.data(), sizeof own);
  return {.stop = std::any_of(all.begin(), all.end(), [](const Signals& s) { return s.stop; }),
          .save = all.front().save};
}

void RankGroup::check_same(const TrainOptions& o, const Json& key) {
  if (alone()) return;
  Json all = key;
  all["steps"] = o.steps;
  all["eval_every"] = o.eval_every;
  all["eval_batches"] = o.eval_batches;
  all["keep"] = o.keep;
  all["save_every"] = {static_cast<int>(o.save_every.kind), o.save_every.count};
  all["summarize"] = o.summarize;
  Json names = Json::array();
  for (const auto& [name, value] : all.items()) names.push_back(name);
  engine::check_same(*ranks_, "their settings", names.dump());
  for (const auto& [name, value] : all.items()) engine::check_same(*ranks_, name, value.dump());
}

}  // namespace ebb::engine
