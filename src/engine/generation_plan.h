// The plan of generation, of a model's own code and within limits.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/planned_memory.h"
#include "engine/runtime.h"
#include "engine/workload.h"
#include "exec/disk_space.h"
#include "exec/disturbance.h"
#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "kernels/counting_ops.h"
#include "model/decoder.h"
#include "plan/generation_search.h"

namespace ebb::engine {

// Slices and tokens that a trace keeps where one is asked for.
inline constexpr std::int64_t kTracedRuns = 8;

struct GeneratorSettings {
  model::Config config;
  DType dtype = DType::bf16;       // of activations, and of weights that are not kept as stored
  files::StoredTypes kept{};       // by a parameter's name: matrices that stay as they are stored
  std::int64_t sequences = 1;      // at once
  std::int64_t positions = 1;      // that each of them can grow to
  std::int64_t prompt_tokens = 0;  // 0: not known, up to all of them
  plan::Limits limits;
  std::vector<plan::Extra> extras{};  // what the caller holds: tokenizer, chat template
  std::int64_t trace_runs = 0;        // the last ones, of slices and of tokens, that a trace keeps
  plan::FixedGenerationChoices fixed{};
  // The machine's tiers, as in training.
  std::shared_ptr<const plan::Topology> topology = plan::device_and_host();
  PlannedMemory::MakeSpace make_space{};
  exec::Disturbance disturbance{};
};

// Matrices that stay as they are stored: those in blocks, where the device ("cpu", "cuda") has
// products with them. Others are widened as they are read.
files::StoredTypes kept_types(io::FileSystem& files, const files::ModelSource& source,
                              std::string_view device);

// Where weights lie, or nothing where they are of one type and at their places: a family whose
// matrices lie column by column has no products with stored ones.
std::optional<model::WeightLayout> weight_layout(const GeneratorSettings& settings,
                                                 const model::Parameters& parameters);

// Gives generation a disk for weights that host memory cannot hold.
void add_disk(GeneratorSettings& settings, const std::vector<exec::DiskFolder>& folders,
              std::function<void(const std::string&)> note = {}, io::QueueOptions queue = {});

// What plans are made for: this machine, or one that is not here.
struct GenerationMachine {
  const kernels::WorkspaceNeeds& device;
  // Asked for where the CPU may compute blocks, beside the device.
  std::function<const kernels::WorkspaceNeeds&()> cpu;
  const plan::Profile& profile;
};

// Throws OutOfBudget: the bytes by purpose on each tier, what is missing and what would help.
plan::GenerationPlan plan_generation(const GenerationMachine& machine,
                                     const GeneratorSettings& settings);
plan::GenerationPlan plan_generation(Runtime& runtime, const GeneratorSettings& settings);

// Bytes of host memory that a tokenizer holds, that one rendering of its chat template may, and
// that choosing the tokens of so many sequences takes.
std::vector<plan::Extra> text_extras(const files::ModelTokenizer& tokenizer, Bytes rendering,
                                     std::int64_t vocabulary, std::int64_t sequences);

}  // namespace ebb::engine
