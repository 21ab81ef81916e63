// What a plan can decide, a row each: the search, the flags that reproduce a plan, and what a
// refusal advises are read from these rows. A new choice is a field of Choices, one of FixedChoices
// where people may fix it, and a row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/list.h"
#include "plan/choices.h"
#include "plan/workload.h"

namespace ebb::plan {

// What the user fixed; an empty field is the planner's to choose.
struct FixedChoices {
  std::optional<Site> site{};  // of the states that leave the device; resident: none leaves
  std::optional<double> offload_fraction{};
  std::optional<double> host_fraction{};
  std::optional<std::int64_t> recompute_blocks{};
  std::optional<std::int64_t> host_inputs{};
  std::optional<std::int64_t> cheap_saved_blocks{};
  std::optional<std::int64_t> streamed_weights{};
  std::optional<std::int64_t> host_sums{};
  std::optional<std::int64_t> vocabulary_cut{};
  std::optional<std::int64_t> chunk_parameters{};
  std::optional<std::int64_t> depth{};
  Tier state_home = Tier::host;  // where states go that leave the device
  Tier below = Tier::host;       // the tier below host memory; host: there is none
  std::optional<double> disk_fraction{};
  std::optional<std::int64_t> disk_weights{};
  std::optional<std::int64_t> disk_sums{};
  std::optional<std::int64_t> disk_inputs{};
};

// Values are whole numbers; what they mean is the row's business.
struct Choice {
  using Values = List<std::int64_t>;

  std::string_view flag{};    // empty where another row's flag says it
  std::string_view zero{};    // how 0 is written; empty: as a number
  std::string_view one{};     // likewise 1
  std::string_view remedy{};  // what leaving it to the plan means; empty: that never helps

  std::int64_t (*get)(const Choices&) = nullptr;
  void (*set)(Choices&, std::int64_t) = nullptr;  // of rows above, values are set
  // Reads the value that the user fixed, and takes it back.
  std::optional<std::int64_t> (*given)(const FixedChoices&) = nullptr;
  void (*release)(FixedChoices&) = nullptr;
  bool (*fixed)(const FixedChoices&) = nullptr;  // null: where a value is given

  std::int64_t (*least)(const Workload&) = nullptr;
  std::int64_t (*most)(const Workload&, const Choices&) = nullptr;  // rows above are set
  // Values far apart, tried first and all with all others'. Never empty.
  Values (*grid)(const Workload&) = nullptr;
  // Values that are in the grid only where nothing fits without them, and else are tried from good
  // points of it; null: none.
  Values (*far)(const Workload&) = nullptr;
  // Values that are tried only where nothing fits without them, those far away included; null:
  // none.
  Values (*last)(const Workload&) = nullptr;
  // Values near one, from far (8) to near (1); null: none are tried.
  Values (*neighbours)(const Workload&, std::int64_t at, int distance) = nullptr;
  // Values that spare memory buys, tried last; null: none.
  Values (*spare)(const Workload&, const Choices&) = nullptr;
  // The value that one would take if memory were free; null: the choice has no such.
  std::int64_t (*ideal)(const Workload&) = nullptr;
  // Not tried: the search takes the least with which the rest fits (Searcher::send_below).
  bool least_that_fits = false;
};

// Whether the user left less of it to the plan than there could be.
bool is_fixed(const Choice&, const FixedChoices&);

// All choices, in the order in which they are set.
std::span<const Choice> choice_table();

// How much the CPU updates of what leaves the device, in parts of this.
inline constexpr int kHostParts = 16;

// "--states stream --offload-fraction 0.5 ...": the flags that reproduce the choices.
std::string flags_of(const Choices&, std::span<const Choice> table = choice_table());

// " --depth 4": the same of one row; empty where it has no flag, or says what goes without saying.
std::string flag_of(const Choices&, const Choice&);

// The value of a choice, as the user wants it or as it is asked for, within what is possible.
std::int64_t value_within(const Choice&, const Workload&, const FixedChoices&, const Choices& above,
                          std::int64_t wanted);

}  // namespace ebb::plan
