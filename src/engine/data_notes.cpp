#include "engine/data_notes.h"

#include <fmt/format.h>

namespace ebb::engine {
namespace {

std::string items(std::int64_t count) {
  return fmt::format("{} bad item{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::vector<std::string> first_left_out(const text::LeftOut& before, const text::LeftOut& now,
                                        std::int64_t step, std::int64_t sequence) {
  std::vector<std::string> notes;
  if (before.cut_examples == 0 && now.cut_examples > 0) {
    notes.push_back(fmt::format(
        "{} of the examples of step {} were longer than --sequence {} and lost {} tokens at their "
        "ends; there may be more. A larger --sequence keeps them whole, the summary counts all.",
        now.cut_examples, step, sequence, now.cut_tokens));
  }
  if (before.bad_items == 0 && now.bad_items > 0) {
    notes.push_back(fmt::format(
        "{} skipped before step {}: {}\nThere may be more; the end of the run and the summary "
        "count all.",
        items(now.bad_items), step, now.first_problem));
  }
  if (before.empty_steps == 0 && now.empty_steps > 0) {
    notes.push_back(fmt::format(
        "Before step {} batches were skipped of which no token counts for the loss, enough for {} "
        "step{}; are many prompts longer than --sequence {}? There may be more; the end of the run "
        "and the summary count all.",
        step, now.empty_steps, now.empty_steps == 1 ? "" : "s", sequence));
  }
  return notes;
}

std::vector<std::string> all_left_out(const text::LeftOut& all) {
  std::vector<std::string> notes;
  if (all.bad_items > 0) {
    notes.push_back(
        fmt::format("{} skipped, the first: {}", items(all.bad_items), all.first_problem));
  }
  if (all.empty_steps > 0) {
    notes.push_back(
        fmt::format("Batches for {} step{} skipped: no token of them counts for the loss",
                    all.empty_steps, all.empty_steps == 1 ? "" : "s"));
  }
  return notes;
}

}  // namespace ebb::engine
