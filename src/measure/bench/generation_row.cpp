#include "measure/bench/generation_row.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/seconds_since.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/settings.h"
#include "measure/probe/product_rate.h"

namespace ebb::measure {
namespace {

using Clock = std::chrono::steady_clock;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The same tokens in every repetition: speed does not depend on them.
std::vector<std::int32_t> made_up_tokens(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  const CounterRng rng(0, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(
        rng.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary))));
  }
  return tokens;
}

// The settings of a generator: all that this bench says to it. `prompt` is what comes before the
// tokens that are generated.
engine::GeneratorSettings settings_of(const model::Config& config, DType dtype,
                                      const files::StoredTypes& kept, const plan::Limits& limits,
                                      std::int64_t prompt, const GenerationTest& test) {
  return {.config = config,
          .dtype = dtype,
          .kept = kept,
          .sequences = test.batch,
          .positions = test.positions(),
          .prompt_tokens = std::max<std::int64_t>(1, prompt),
          .limits = limits};
}

// Whether both compute the same in the same places: tasks and lanes are equal, and so are the tiers
// of weights and caches.
bool same_work(const plan::Plan& a, const plan::Plan& b) {
  const auto same_task = [](const plan::Task& x, const plan::Task& y) {
    return x.kind == y.kind && x.op == y.op && x.lane == y.lane && x.block == y.block &&
           x.piece == y.piece;
  };
  const auto homes = [](const plan::Program& program) {
    std::vector<std::pair<plan::Purpose, plan::Tier>> homes;
    for (const plan::Object& object : program.objects) {
      if (object.persistent) homes.emplace_back(object.purpose, object.tier);
    }
    return homes;
  };
  return std::ranges::equal(a.program.tasks, b.program.tasks, same_task) &&
         homes(a.program) == homes(b.program);
}

// Whether a generator with the plan `loaded` runs a test as one would that was made for the test
// alone (`own`).
bool serves(const plan::GenerationPlan& loaded, const plan::GenerationPlan& own,
            const GenerationTest& test) {
  if (test.tokens > 0 && !same_work(loaded.token, own.token)) return false;
  if (test.prompt == 0) return true;
  // A prompt that is shorter than a slice is read in a part of one.
  const std::int64_t slice = loaded.slice.workload.tokens, wanted = own.slice.workload.tokens;
  return same_work(loaded.slice, own.slice) &&
         (slice == wanted || (slice > wanted && own.slices == 1));
}

}  // namespace

double GenerationRow::mean_seconds() const { return mean(seconds); }

std::vector<double> GenerationRow::speeds() const {
  std::vector<double> speeds;
  for (const double took : seconds) {
    speeds.push_back(static_cast<double>(test.timed_tokens()) / took);
  }
  return speeds;
}

double GenerationRow::speed() const { return mean(speeds()); }

double GenerationRow::deviation() const {
  const std::vector<double> all = speeds();
  if (all.size() < 2) return 0;
  const double middle = mean(all);
  double squares = 0;
  for (const double each : all) squares += (each - middle) * (each - middle);
  return std::sqrt(squares / static_cast<double>(all.size() - 1));
}

double GenerationRow::predicted_speed() const {
  return static_cast<double>(test.timed_tokens()) / predicted_seconds;
}

std::optional<double> GenerationRow::ceiling_speed() const {
  const std::optional<double> least = ceiling_seconds(cost, rates);
  if (!least) return std::nullopt;
  return static_cast<double>(test.timed_tokens()) / *least;
}

std::optional<double> GenerationRow::share_of_ceiling() const {
  const std::optional<double> ceiling = ceiling_speed();
  if (!ceiling) return std::nullopt;
  return speed() / *ceiling;
}

struct GenerationRunner::Planned {
  std::size_t row = 0;
  engine::GeneratorSettings settings;
  plan::GenerationPlan plan;
};

GenerationRunner::GenerationRunner(engine::Runtime& runtime, io::FileSystem& files,
                                   const GenerateBenchOptions& options)
    : runtime_(runtime), files_(files), options_(options), machine_(runtime.memory()) {}

const GenerationRates& GenerationRunner::rates_for(
    DType dtype, const std::function<void(const std::string&)>& tell) {
  const auto found = rates_.find(dtype);
  if (found != rates_.end()) return found->second;
  GenerationRates rates;
  if (rates_.empty()) {
    tell("reading of host memory");
    rates.host = host_read_rate(runtime_, options_.ceiling_seconds);
    // On the cpu device both are one memory, of one rate.
    rates.device = rates.host;
    if (runtime_.device().kind() != "cpu") {
      tell("reading of device memory");
      rates.device = device_read_rate(runtime_, options_.ceiling_seconds);
    }
  } else {
    rates = rates_.begin()->second;
  }
  tell(fmt::format("matrix products, {}", name_of(dtype)));
  rates.matrix_flops = product_rate(runtime_, dtype, options_.ceiling_seconds);
  return rates_.emplace(dtype, rates).first->second;
}

std::vector<GenerationRow> GenerationRunner::run(
    const GenerationSetup& setup, const std::vector<GenerationTest>& tests, const Tell& tell,
    const std::function<void(const GenerationRow&)>& found) {
  const files::ModelSource source = files::find_model(files_, setup.model);
  const DType dtype = setup.dtype == FloatType::automatic
                          ? files::stored_dtype(files_, source)
                          : engine::dtype_of(setup.dtype, DType::bf16);
  const files::StoredTypes kept = engine::kept_types(files_, source, runtime_.device().kind());
  const plan::Limits limits =
      engine::limits_within(machine_, setup.device_memory, setup.host_memory);
  double behind = 0;
  const auto now = [&](const std::string& what) { tell(setup.model + ": " + what, behind); };
  const auto done = [&](const GenerationRow& row) {
    ++behind;
    found(row);
  };
  // Before any model has memory, and from the same machine as it.
  const GenerationRates& rates = rates_for(dtype, now);
  std::vector<GenerationRow> rows;
  std::vector<Planned> waiting;
  for (const GenerationTest& test : tests) {
    GenerationRow& row = rows.emplace_back(
        GenerationRow{.setup = setup, .test = test, .threads = runtime_.threads(), .dtype = dtype});
    row.parameters = model::parameters_of(source.config).count();
    row.rates = rates;
    try {
      const auto settings = [&](std::int64_t prompt) {
        return settings_of(source.config, dtype, kept, limits, prompt, test);
      };
      const engine::GeneratorSettings own = settings(test.depth + test.prompt);
      const plan::GenerationPlan plan = engine::plan_generation(runtime_, own);
      row.predicted_seconds = static_cast<double>(test.tokens) * plan.token.prediction.step_seconds;
      if (test.prompt > 0) {
        double prompt = plan.prompt_seconds;
        // What lies before is read as well, but not timed.
        if (test.depth > 0) {
          prompt -= engine::plan_generation(runtime_, settings(test.depth)).prompt_seconds;
        }
        row.predicted_seconds += static_cast<double>(test.batch) * prompt;
      }
      waiting.push_back({.row = rows.size() - 1, .settings = own, .plan = plan});
    } catch (const OutOfBudget& error) {
      row.refusal = error.what();
      done(row);
    }
  }
  while (!waiting.empty()) load_and_time(source, waiting, rows, now, done);
  return rows;
}

void GenerationRunner::load_and_time(const files::ModelSource& source,
                                     std::vector<Planned>& waiting,
                                     std::vector<GenerationRow>& rows,
                                     const std::function<void(const std::string&)>& tell,
                                     const std::function<void(const GenerationRow&)>& found) {
  // One load for all that wait, where that changes the plan of none: large models take minutes.
  engine::GeneratorSettings settings = waiting.front().settings;
  plan::GenerationPlan plan = waiting.front().plan;
  try {
    engine::GeneratorSettings all = settings;
    for (const Planned& each : waiting) {
      if (each.settings.sequences != all.sequences) continue;
      all.positions = std::max(all.positions, each.settings.positions);
      all.prompt_tokens = std::max(all.prompt_tokens, each.settings.prompt_tokens);
    }
    const plan::GenerationPlan plan_of_all = engine::plan_generation(runtime_, all);
    if (serves(plan_of_all, plan, rows[waiting.front().row].test)) {
      settings = all;
      plan = plan_of_all;
    }
  } catch (const OutOfBudget&) {
    // Each fits by itself.
  }
  const auto is_served = [&](const Planned& each) {
    return each.settings.sequences == settings.sequences &&
           each.settings.positions <= settings.positions &&
           serves(plan, each.plan, rows[each.row].test);
  };
  std::vector<Planned> served;
  std::ranges::copy_if(waiting, std::back_inserter(served), is_served);
  std::erase_if(waiting, is_served);
  std::size_t next = 0;
  const auto refuse = [&](const std::string& why, bool failed) {
    for (; next < served.size(); ++next) {
      GenerationRow& row = rows[served[next].row];
      row.refusal = why;
      row.failed = failed;
      found(row);
    }
  };
  try {
    tell("loading");
    const auto start = Clock::now();
    engine::Generator generator(runtime_, files_, source, settings);
    const double load_seconds = seconds_since(start);
    for (; next < served.size(); ++next) {
      GenerationRow& row = rows[served[next].row];
      tell(row.test.name());
      row.load_seconds = load_seconds;
      row.cost = generation_cost(settings.config, generator.plan(), settings.positions, row.test);
      const plan::Topology& topology = *generator.plan().token.program.topology;
      for (const plan::Tier tier : topology.all_tiers()) {
        if (row.cost.weight_bytes[tier] == 0) continue;
        row.places.emplace_back(topology[tier].name, row.cost.weight_bytes[tier]);
        row.weight_bytes += row.cost.weight_bytes[tier];
      }
      time(generator, settings.config.vocabulary, row);
      found(row);
    }
    // What fails in the middle of a row takes those behind it along, but not other models.
  } catch (const OutOfBudget& error) {
    refuse(error.what(), false);
  } catch (const DeviceError& error) {
    refuse(error.what(), true);
  }
}

void GenerationRunner::time(engine::Generator& generator, std::int64_t vocabulary,
                            GenerationRow& row) {
  const GenerationTest& test = row.test;
  const std::vector<std::int32_t> tokens = made_up_tokens(test.positions(), vocabulary);
  // The first one does not count: it warms up caches and clocks.
  std::vector<int> all(to_size(test.batch));
  std::iota(all.begin(), all.end(), 0);
  std::vector<engine::Generator::Token> first;
  for (const int sequence : all) first.push_back({sequence, tokens.back()});
  // Tokens are queued as a text's are, but nobody looks at logits.
  generator.set_chooser([&](int, std::span<const float>) { return tokens.back(); });
  const std::span<const std::int32_t> before = std::span(tokens).first(to_size(test.depth));
  const auto prompt = std::span(tokens).subspan(before.size(), to_size(test.prompt));
  for (std::int64_t repetition = -1; repetition < options_.repetitions; ++repetition) {
    for (const int sequence : all) {
      generator.reset(sequence);
      if (before.empty()) continue;
      if (sequence == 0) {
        generator.advance(before);
      } else {
        generator.copy(0, sequence, test.depth);
      }
    }
    const auto start = Clock::now();
    for (const int sequence : all) {
      if (!prompt.empty()) generator.advance(prompt, sequence);
    }
    if (test.tokens > 0) generator.queue_each(first, true);
    for (std::int64_t i = 1; i < test.tokens; ++i) generator.queue_chosen(all);
    generator.drain();
    if (repetition >= 0) row.seconds.push_back(seconds_since(start));
  }
  const auto peak = [&](plan::Tier tier) {
    return Peak{.limit = generator.plan().slice.limits[tier],
                .predicted = generator.plan().peak(tier),
                .measured = generator.measured_peak(tier)};
  };
  row.device = peak(plan::Tier::device);
  row.host = peak(plan::Tier::host);
}

}  // namespace ebb::measure
