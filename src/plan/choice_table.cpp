#include "plan/choice_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ebb::plan {
namespace {

using Values = Choice::Values;

std::int64_t layers(const Workload& work) { return work.layers(); }
std::int64_t nothing(const Workload&) { return 0; }
std::int64_t all_layers(const Workload& work, const Choices&) { return layers(work); }
std::int64_t every_layer(const Workload& work) { return layers(work); }

// Values on both sides of `at`, a share of the model's blocks away.
Values blocks_around(const Workload& work, std::int64_t at, int distance) {
  const std::int64_t by = std::max<std::int64_t>(1, layers(work) * distance / 64);
  return {at + by, at - by};
}

Values none_or_all(const Workload& work) { return {0, layers(work)}; }
Values parts_of_all(const Workload& work) {
  const std::int64_t n = layers(work);
  Values all = {0, n / 8, n / 4, n / 2, n};
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// A row whose value is a field of both.
template <auto kValue, auto kWish>
constexpr Choice row_of(std::string_view flag, std::string_view zero, std::string_view remedy) {
  return {.flag = flag,
          .zero = zero,
          .remedy = remedy,
          .get = [](const Choices& choices) { return choices.*kValue; },
          .set = [](Choices& choices, std::int64_t value) { choices.*kValue = value; },
          .given = [](const FixedChoices& fixed) { return fixed.*kWish; },
          .release = [](FixedChoices& fixed) { (fixed.*kWish).reset(); }};
}

// What share leaves the device is not tried: the least that fits is found (search.cpp). This is the
// CPU's part of it.
Choice states_row() {
  return {.remedy = "let states leave the device (--states auto)",
          .get =
              [](const Choices& choices) {
                const double all = choices.offload_fraction;
                const double part = all > 0 ? choices.host_fraction / all : 0;
                return static_cast<std::int64_t>(part * kHostParts + 0.5);
              },
          .set =
              [](Choices& choices, std::int64_t part) {
                choices.host_fraction =
                    choices.offload_fraction * static_cast<double>(part) / kHostParts;
              },
          .given = [](const FixedChoices& fixed) -> std::optional<std::int64_t> {
            if (fixed.site) return *fixed.site == Site::host ? kHostParts : 0;
            return fixed.host_fraction ? std::optional<std::int64_t>(0) : std::nullopt;
          },
          .release =
              [](FixedChoices& fixed) {
                fixed.site.reset();
                fixed.offload_fraction.reset();
                fixed.host_fraction.reset();
              },
          .fixed =
              [](const FixedChoices& fixed) {
                return fixed.site || fixed.offload_fraction || fixed.host_fraction;
              },
          .least = nothing,
          .most = [](const Workload&, const Choices&) { return std::int64_t{kHostParts}; },
          .grid =
              [](const Workload&) {
                return Values{0, 4, 8, 12, kHostParts};
              },
          .neighbours =
              [](const Workload&, std::int64_t at, int distance) {
                const std::int64_t by = std::max(1, distance / 4);
                return Values{at + by, at - by};
              },
          .ideal = nothing};
}

Choice inputs_row() {
  Choice row = row_of<&Choices::host_inputs, &FixedChoices::host_inputs>(
      "--activations", "device", "let block inputs wait in host memory (--activations auto)");
  row.least = row.ideal = nothing;
  row.most = all_layers;
  row.grid = none_or_all;
  row.neighbours = blocks_around;
  return row;
}

Choice recompute_row() {
  Choice row = row_of<&Choices::recompute_blocks, &FixedChoices::recompute_blocks>(
      "--recompute", "none", "let blocks be recomputed (--recompute auto)");
  row.least = row.ideal = nothing;
  row.most = all_layers;
  row.grid = parts_of_all;
  row.neighbours = blocks_around;
  return row;
}

std::int64_t blocks(const Workload& work) { return work.blocks.count(); }

Choice weights_row() {
  Choice row = row_of<&Choices::streamed_weights, &FixedChoices::streamed_weights>(
      "--weights", "resident", "let weights live in host memory (--weights auto)");
  row.least = row.ideal = nothing;
  row.most = [](const Workload& work, const Choices&) { return blocks(work); };
  row.grid = [](const Workload&) { return Values{0}; };
  row.far = [](const Workload& work) { return Values{layers(work), blocks(work)}; };
  row.neighbours = blocks_around;
  return row;
}

Choice sums_row() {
  Choice row = row_of<&Choices::host_sums, &FixedChoices::host_sums>(
      "--gradient-sums", "device", "let gradients be summed in host memory (--gradient-sums auto)");
  row.least = row.ideal = nothing;
  row.most = [](const Workload& work, const Choices&) { return blocks(work); };
  row.grid = [](const Workload&) { return Values{0}; };
  row.far = [](const Workload& work) { return Values{blocks(work)}; };
  row.neighbours = blocks_around;
  return row;
}

// A head in pieces makes its logits twice: whole is faster where it fits.
Choice vocabulary_row() {
  Choice row = row_of<&Choices::vocabulary_cut, &FixedChoices::vocabulary_cut>(
      "--vocabulary", "whole", "let embedding and head be cut by vocabulary (--vocabulary auto)");
  row.one = "cut";
  row.least = row.ideal = nothing;
  row.most = [](const Workload& work, const Choices&) {
    const bool can =
        std::ranges::any_of(work.blocks, [](const Block& b) { return !b.pieces.empty(); });
    return std::int64_t{can};
  };
  row.grid = [](const Workload&) { return Values{0}; };
  row.last = [](const Workload& work) {
    const bool can =
        std::ranges::any_of(work.blocks, [](const Block& b) { return !b.pieces.empty(); });
    return can ? Values{1} : Values{};
  };
  return row;
}

// What keeping is worth is little: it is tried for what the plan leaves free, or where it is worth
// more than that states leave for it. A block that runs twice keeps nothing.
Choice kept_row() {
  Choice row = row_of<&Choices::cheap_saved_blocks, &FixedChoices::cheap_saved_blocks>(
      "--save-cheap", "none", "let cheap activations be made again (--save-cheap auto)");
  row.least = nothing;
  row.most = [](const Workload& work, const Choices& choices) {
    return layers(work) - choices.recompute_blocks;
  };
  row.grid = [](const Workload&) { return Values{0}; };
  row.spare = [](const Workload& work, const Choices& choices) {
    const std::int64_t most = layers(work) - choices.recompute_blocks;
    return Values{most, most / 2, most / 4, most / 8};
  };
  row.ideal = every_layer;
  return row;
}

Choice chunk_row() {
  Choice row = row_of<&Choices::chunk_parameters, &FixedChoices::chunk_parameters>(
      "--chunk-parameters", "", "");
  row.least = [](const Workload&) { return std::int64_t{1}; };
  row.most = [](const Workload&, const Choices&) { return std::int64_t{1} << 60; };
  row.grid = [](const Workload& work) { return Values{default_chunk_parameters(work)}; };
  row.neighbours = [](const Workload& work, std::int64_t at, int) {
    const std::int64_t usual = default_chunk_parameters(work);
    const std::int64_t least = std::max(usual / 2, work.parameters() / kMostChunks);
    Values values;
    for (const std::int64_t chunk : {at / 2, at * 2}) {
      if (chunk >= least && chunk <= usual * 4) values.push_back(chunk);
    }
    return values;
  };
  return row;
}

// Of what leaves the device, so many blocks' go below host memory; more than there are is all.
template <auto kValue, auto kWish>
Choice below_row(std::string_view flag) {
  Choice row = row_of<kValue, kWish>(flag, "", "");
  row.least = nothing;
  row.most = [](const Workload& work, const Choices& choices) {
    return choices.below == Tier::host ? 0 : blocks(work);
  };
  row.grid = [](const Workload&) { return Values{0}; };
  row.least_that_fits = true;
  return row;
}

// Spare room lets more of what moves be on its way at once.
Choice depth_row() {
  Choice row = row_of<&Choices::depth, &FixedChoices::depth>("--depth", "", "");
  row.least = [](const Workload&) { return Choices::kLeastDepth; };
  row.most = [](const Workload&, const Choices&) { return Choices::kMostDepth; };
  row.grid = [](const Workload&) { return Values{Choices::kLeastDepth}; };
  row.spare = [](const Workload&, const Choices&) { return Values{4, 8, 16}; };
  return row;
}

}  // namespace

std::span<const Choice> choice_table() {
  using C = Choices;
  using W = FixedChoices;
  static const std::array rows = {
      states_row(),
      weights_row(),
      sums_row(),
      recompute_row(),
      kept_row(),
      inputs_row(),
      vocabulary_row(),
      chunk_row(),
      depth_row(),
      below_row<&C::disk_weights, &W::disk_weights>("--disk-weights"),
      below_row<&C::disk_sums, &W::disk_sums>("--disk-sums"),
      below_row<&C::disk_inputs, &W::disk_inputs>("--disk-activations")};
  return rows;
}

bool is_fixed(const Choice& choice, const FixedChoices& fixed) {
  return choice.fixed != nullptr ? choice.fixed(fixed) : choice.given(fixed).has_value();
}

std::string flag_of(const Choices& choices, const Choice& choice) {
  if (choice.flag.empty()) return {};
  const std::int64_t value = choice.get(choices);
  if (value == 0 && choice.least_that_fits) return {};
  const std::string_view word = value == 0 ? choice.zero : value == 1 ? choice.one : "";
  return word.empty() ? fmt::format(" {} {}", choice.flag, value)
                      : fmt::format(" {} {}", choice.flag, word);
}

std::string flags_of(const Choices& choices, std::span<const Choice> table) {
  const double host = choices.host_fraction;
  const double all = choices.offload_fraction;
  std::string flags = "--states ";
  if (all <= 0) {
    flags += "resident";
  } else if (host >= all) {
    flags += fmt::format("host --offload-fraction {}", all);
  } else {
    flags += fmt::format("stream --offload-fraction {}", all);
    if (host > 0) flags += fmt::format(" --host-fraction {}", host);
  }
  if (choices.disk_fraction > 0) flags += fmt::format(" --disk-fraction {}", choices.disk_fraction);
  for (const Choice& choice : table) flags += flag_of(choices, choice);
  return flags;
}

std::int64_t value_within(const Choice& choice, const Workload& work, const FixedChoices& fixed,
                          const Choices& above, std::int64_t wanted) {
  const std::int64_t least = choice.least(work);
  return std::clamp(choice.given(fixed).value_or(wanted), least,
                    std::max(least, choice.most(work, above)));
}

}  // namespace ebb::plan
