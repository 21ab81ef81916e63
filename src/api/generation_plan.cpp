// Plans of generation: the memory and time that it would take, before it takes any.
#include "engine/generation_plan.h"
#include "api/generation_placement.h"
#include "api/planned_machine.h"
#include "api/text_request.h"
#include "ebb/generate.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"
#include "plan/explain.h"

namespace ebb {

std::string explain_generation(const GenerateOptions& options, std::int64_t prompt_tokens,
                               const std::string& machine) {
  io::PosixFileSystem files;
  // First, as it throws where no file can be made there: before anything is planned.
  engine::TraceFile trace(files, options.trace);
  const files::ModelSource source = files::find_model(files, options.model);
  const api::TextTokens tokens =
      api::text_tokens({"--prompt-tokens", prompt_tokens}, options.max_tokens, source.config,
                       source.config.max_positions);
  const api::PlannedMachine on = api::planned_machine(
      files, {.device = options.device, .threads = options.threads, .profile = {}}, machine);
  engine::GeneratorSettings settings{
      .config = source.config,
      .dtype = options.dtype == FloatType::automatic ? files::stored_dtype(files, source)
                                                     : engine::dtype_of(options.dtype, DType::bf16),
      .kept = engine::kept_types(files, source, on.profile.device),
      .sequences = api::check_sequences(options.sequences),
      .positions = prompt_tokens + tokens.most,
      .prompt_tokens = prompt_tokens,
      .limits = engine::limits_within(on.memory, options.device_memory, options.host_memory)};
  const Bytes host = settings.limits[plan::Tier::host];
  const files::ModelTokenizer tokenizer =
      files::find_tokenizer(files, source, options.tokenizer, host);
  // One rendering at a time, as a Generator does; without a template there is none to count.
  settings.extras = engine::text_extras(
      tokenizer, options.chat && tokenizer.parts.chat ? files::rendering_memory(host, 1) : 0,
      source.config.vocabulary, options.sequences);
  // Folders of disks are looked at where they are, on this machine.
  api::set_placement(options.placement, on.here != nullptr ? &files : nullptr, settings);
  const plan::GenerationPlan plan = engine::plan_generation(
      {.device = on.needs(),
       .cpu = [&]() -> const kernels::WorkspaceNeeds& { return on.cpu_needs(); },
       .profile = on.profile},
      settings);
  if (trace.wanted()) trace.write(plan::predicted_traces(plan));
  return plan::explain(plan) + (tokens.note.empty() ? "" : tokens.note + "\n") + on.explain();
}

}  // namespace ebb
