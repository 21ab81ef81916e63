// What generation would take, before it takes it.
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"
#include "ebb/generate.h"
#include "engine/generation_plan.h"
#include "engine/machine_profile.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"
#include "kernels/estimated_needs.h"
#include "plan/explain.h"

namespace ebb {
namespace {

void check_tokens(const model::Config& config, std::int64_t prompt, std::int64_t max_tokens) {
  for (const auto& [flag, tokens] :
       {std::pair{"--prompt-tokens", prompt}, {"--max-tokens", max_tokens}}) {
    if (tokens < 1 || tokens >= config.max_positions) {
      throw ConfigError(fmt::format("{} {}: expected 1 to {}; the model knows {} positions", flag,
                                    tokens, config.max_positions - 1, config.max_positions));
    }
  }
  if (prompt + max_tokens > config.max_positions) {
    throw ConfigError(fmt::format(
        "--max-tokens {}: behind a prompt of {} tokens the model knows {} positions only; give at "
        "most {}",
        max_tokens, prompt, config.max_positions, config.max_positions - prompt));
  }
}

// What plans are made for: this machine, or one that need not be here.
struct Machine {
  std::unique_ptr<engine::Runtime> here;
  std::unique_ptr<kernels::WorkspaceNeeds> estimated;
  plan::Profile profile;
  engine::MachineMemory memory;
  std::string speeds;  // where they are from

  const kernels::WorkspaceNeeds& needs() const {
    return here != nullptr ? here->device_model() : *estimated;
  }
};

Machine machine_for(io::FileSystem& files, const GenerateOptions& options,
                    const std::string& name) {
  Machine machine;
  if (name.empty()) {
    machine.here =
        std::make_unique<engine::Runtime>(options.device, engine::check_threads(options.threads));
    machine.speeds = engine::load_profile(files, *machine.here, "") + "\n";
    machine.profile = machine.here->profile();
    machine.memory = machine.here->memory();
    return machine;
  }
  machine.profile = engine::find_machine(files, name);
  const plan::Profile& profile = machine.profile;
  if (options.device != DeviceKind::automatic && to_word(options.device) != profile.device) {
    throw ConfigError(fmt::format("--device {}: the machine is a {} one; leave --device out",
                                  to_word(options.device), profile.device));
  }
  machine.estimated = kernels::estimate_needs(profile.device, profile.cores);
  machine.memory = {.device = profile.device_memory,
                    .host = profile.host_memory,
                    .shared = profile.device == "cpu"};
  machine.speeds = fmt::format(
      "Workspaces are estimates: the libraries of that machine were not asked.\nSpeeds of {}:\n",
      profile.name);
  return machine;
}

}  // namespace

std::string explain_generation(const GenerateOptions& options, std::int64_t prompt_tokens,
                               const std::string& machine) {
  io::PosixFileSystem files;
  engine::TraceFile trace(files, options.trace);
  const files::ModelSource source = files::find_model(files, options.model);
  check_tokens(source.config, prompt_tokens, options.max_tokens);
  const Machine on = machine_for(files, options, machine);
  engine::GeneratorSettings settings{
      .config = source.config,
      .dtype = options.dtype == FloatType::automatic ? files::stored_dtype(files, source)
                                                     : engine::dtype_of(options.dtype, DType::bf16),
      .positions = prompt_tokens + options.max_tokens,
      .prompt_tokens = prompt_tokens,
      .limits = engine::limits_within(on.memory, options.device_memory, options.host_memory)};
  const Bytes host = settings.limits[plan::Tier::host];
  const files::ModelTokenizer tokenizer =
      files::find_tokenizer(files, source, options.tokenizer, host);
  settings.extras = engine::text_extras(
      tokenizer, options.chat && tokenizer.parts.chat ? files::rendering_memory(host, 1) : 0);
  kernels::CountingOps ops(on.needs());
  const plan::GenerationPlan plan = engine::plan_generation(ops, on.profile, settings);
  if (trace.wanted()) trace.write(plan::predicted_traces(plan));
  return plan::explain(plan) + on.speeds + plan::explain_speeds(on.profile);
}

}  // namespace ebb
