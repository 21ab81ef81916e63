#include "ebb/generate.h"

#include "api/text_request.h"
#include "ebb/error.h"
#include "ebb/generator.h"
#include "engine/settings.h"

namespace ebb {
namespace {

std::vector<ChatMessage> messages_of(const GenerateOptions& options) {
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.prompt});
  return messages;
}

// Throws all that the generator would say of this text, but before the weights are read, which
// takes minutes. Returns the tokens of the prompt.
std::int64_t check(const Model& model, const GenerateOptions& options) {
  if (!options.chat && !options.system.empty()) {
    throw ConfigError("--system: it goes through the chat template; add --chat");
  }
  const api::TextRequest request = options.chat ? api::answer(model, messages_of(options), options)
                                                : api::continuation(model, options.prompt, options);
  const api::OpenedModel& opened = api::opened(model);
  choose(request, opened, opened.generation_config());
  check_request(request, opened, model.max_positions());
  return static_cast<std::int64_t>(request.ids.size());
}

}  // namespace

GenerateSummary generate(const GenerateOptions& options, const TextSink& sink,
                         std::stop_token stop) {
  // A bad number of threads is refused before a tokenizer is read for it.
  engine::check_threads(options.threads);
  const Model model = Model::open(options.model, {.tokenizer = options.tokenizer,
                                                  .verify = options.verify,
                                                  .host_memory = options.host_memory});
  // The key-value cache is made for this text alone: exactly its prompt and what may follow it. The
  // prompt is encoded again by the generator; that costs nothing beside the weights.
  const std::int64_t prompt = check(model, options);
  Generator generator(model,
                      {.positions = prompt + options.max_tokens,
                       .prompt_tokens = prompt,
                       .dtype = options.dtype,
                       .device = options.device,
                       .threads = options.threads,
                       .device_memory = options.device_memory,
                       .host_memory = options.host_memory,
                       .trace = options.trace,
                       .placement = options.placement},
                      stop);
  return options.chat ? generator.answer(messages_of(options), options, sink, stop)
                      : generator.generate(options.prompt, options, sink, stop);
}

}  // namespace ebb
