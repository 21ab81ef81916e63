#include "engine/generation_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/parameter_store.h"
#include "engine/planned_memory.h"
#include "engine/sampling.h"
#include "plan/explain.h"
#include "plan/refusal.h"

namespace ebb::engine {
namespace {

// A piece of a tensor as it is stored, as fp32 and as bf16.
constexpr Bytes kLoadingBytes = 10 * ParameterStore::kPiece;

// The work by length of slices, and with or without what the CPU wants for blocks of its own:
// counted once each, when a plan asks.
class WorkTable {
 public:
  WorkTable(const GenerationMachine& machine, const GeneratorSettings& s)
      : machine_(machine),
        ops_(machine.device),
        decoder_(s.config, s.dtype, s.dtype, {}, model::BlockCut::halves),
        parameters_(model::parameters_of(s.config, model::BlockCut::halves)),
        layout_(weight_layout(s, parameters_)),
        shape_{.dtype = s.dtype,
               .sequences = s.sequences,
               .positions = s.positions,
               .prompt_tokens = s.prompt_tokens,
               .topology = s.topology,
               .extras = s.extras,
               .task_bytes = task_bytes(s.trace_runs),
               .layout = layout_ ? &*layout_ : nullptr} {
    // Weights come through host memory a piece at a time.
    shape_.extras.push_back({plan::Tier::host, "loading", kLoadingBytes});
  }

  std::int64_t prompt() const { return shape_.prompt(); }
  const plan::GenerationWork& work(std::int64_t slice, bool by_cpu) {
    const auto [found, is_new] = works_.try_emplace({slice, by_cpu});
    if (is_new) {
      shape_.cpu = by_cpu ? &machine_.cpu() : nullptr;
      found->second = generation_work(decoder_, parameters_, ops_, shape_, slice);
    }
    return found->second;
  }

 private:
  const GenerationMachine& machine_;
  kernels::CountingOps ops_;
  model::Decoder decoder_;
  model::Parameters parameters_;
  std::optional<model::WeightLayout> layout_;
  GenerationShape shape_;
  std::map<std::pair<std::int64_t, bool>, plan::GenerationWork> works_;
};

plan::GenerationPlan plan_of(const GenerationMachine& machine, const GeneratorSettings& s) {
  WorkTable table(machine, s);
  const plan::Profile profile =
      s.dtype == DType::f32 ? plan::with_variant(machine.profile, "fp32") : machine.profile;
  // A caller who does not say how long prompts are writes some tokens behind each.
  constexpr std::int64_t usual_part = 4;
  const plan::GenerationTask task{
      .slices = plan::slices_of(table.prompt()),
      .work = [&](std::int64_t slice, bool by_cpu) -> const plan::GenerationWork& {
        return table.work(slice, by_cpu);
      },
      .tokens = s.prompt_tokens > 0 ? s.positions - s.prompt_tokens
                                    : std::max<std::int64_t>(1, s.positions / usual_part)};
  return plan::search_generation(task, s.fixed, s.limits, profile);
}

// How many positions the device has room for, by what each of them costs there.
std::int64_t positions_that_fit(const plan::GenerationPlan& plan, std::int64_t positions) {
  const plan::Workload& work = plan.slice.workload;
  Bytes all = work.tables, alignment = plan::kAlignment;
  for (const plan::Block& block : work.blocks) {
    all += block.cache;
    alignment += plan::kAlignment;
  }
  const Bytes each = all / positions;
  const Bytes missing = plan.peak(plan::Tier::device) - plan.slice.limits[plan::Tier::device];
  return each == 0 ? 0 : positions - std::max<Bytes>(0, missing + alignment) / each - 1;
}

// Each was tried.
List<std::string> remedies_for(const plan::GenerationPlan& refused,
                               const GenerationMachine& machine, const GeneratorSettings& s) {
  List<std::string> remedies;
  const auto try_with = [&](const GeneratorSettings& other, const std::string& remedy) {
    if (!fits(plan_of(machine, other).slice)) return false;
    remedies.push_back(remedy);
    return true;
  };
  const std::int64_t positions = positions_that_fit(refused, s.positions);
  const std::int64_t answer = s.positions - s.prompt_tokens;
  if (s.prompt_tokens > 0 && positions > s.prompt_tokens) {
    GeneratorSettings other = s;
    other.positions = positions;
    try_with(other, fmt::format("--max-tokens {}", positions - s.prompt_tokens));
  }
  if (s.prompt_tokens > 0 && positions > answer) {
    GeneratorSettings other = s;
    other.positions = positions;
    other.prompt_tokens = positions - answer;
    try_with(other, fmt::format("a prompt of {} tokens", other.prompt_tokens));
  }
  for (std::int64_t fewer = s.sequences / 2; fewer >= 1; fewer /= 2) {
    GeneratorSettings other = s;
    other.sequences = fewer;
    if (try_with(other, fmt::format("--sequences {}", fewer))) break;
  }
  if (s.dtype == DType::f32) {
    GeneratorSettings other = s;
    other.dtype = DType::bf16;
    try_with(other, "--dtype bf16");
  }
  // What the user fixed is left to the plan, one thing after the other.
  GeneratorSettings freer = s;
  std::string remedy;
  for (const plan::GenerationChoice& choice : plan::generation_choice_table()) {
    if (!choice.release(freer.fixed)) continue;
    remedy += fmt::format("{}{}{}{}", remedy.empty() ? "" : " ", choice.automatic ? "" : "without ",
                          choice.flag, choice.automatic ? " auto" : "");
    if (try_with(freer, remedy)) break;
  }
  return remedies;
}

}  // namespace

plan::GenerationPlan plan_generation(const GenerationMachine& machine, const GeneratorSettings& s) {
  plan::GenerationPlan plan = plan_of(machine, s);
  if (fits(plan.slice)) return plan;
  throw plan::refuse(plan.slice, flags_of(plan.choices), remedies_for(plan, machine, s));
}

plan::GenerationPlan plan_generation(Runtime& runtime, const GeneratorSettings& s) {
  return plan_generation(
      {.device = runtime.device_model(),
       .cpu = [&]() -> const kernels::WorkspaceNeeds& { return runtime.cpu_model(); },
       .profile = runtime.profile()},
      s);
}

files::StoredTypes kept_types(io::FileSystem& files, const files::ModelSource& source,
                              std::string_view device) {
  return device == "cpu" ? files::matrices_in_blocks(files, source) : files::StoredTypes();
}

std::optional<model::WeightLayout> weight_layout(const GeneratorSettings& s,
                                                 const model::Parameters& parameters) {
  if (s.config.weights_in_by_out) return std::nullopt;
  return model::WeightLayout(parameters, [&](int p) {
    const auto kept = s.kept.find(parameters.all[p].name);
    return kept == s.kept.end() ? kernels::weight_type(s.dtype) : kept->second;
  });
}

void add_disk(GeneratorSettings& s, const std::vector<exec::DiskFolder>& folders,
              std::function<void(const std::string&)> note, io::QueueOptions queue) {
  // All layers' weights, and of each half a grain that is not full.
  const Bytes used = model::parameters_of(s.config).count() * size_of(s.dtype) +
                     2 * s.config.layers * exec::DiskSpace::kGrain;
  DiskTier disk = make_disk_tier(*s.topology, folders, used, s.limits[plan::Tier::host],
                                 std::move(note), std::move(queue));
  s.topology = std::move(disk.topology);
  s.fixed.below = kDisk;
  s.limits[kDisk] = disk.limit;
  s.extras.insert(s.extras.end(), disk.extras.begin(), disk.extras.end());
  s.make_space = std::move(disk.make_space);
}

std::vector<plan::Extra> text_extras(const files::ModelTokenizer& tokenizer, Bytes rendering,
                                     std::int64_t vocabulary, std::int64_t sequences) {
  std::vector<plan::Extra> extras = {
      {plan::Tier::host, "tokenizer", tokenizer.memory_bytes()},
      {plan::Tier::host, "sampling", sequences * Sampler::memory_bytes(vocabulary)}};
  if (rendering > 0) extras.push_back({plan::Tier::host, "chat template", rendering});
  return extras;
}

}  // namespace ebb::engine
