#include "ebb/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

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

api::TextRequest request_of(const Model& model, const Prompt& prompt,
                            const SamplingOptions& sampling) {
  return prompt.messages.empty() ? api::continuation(model, prompt.text, sampling)
                                 : api::answer(model, prompt.messages, sampling);
}

// What a text needs: tokens of its prompt, and positions for these and for what follows.
struct Length {
  std::int64_t prompt = 1;
  std::int64_t positions = 1;
};

// Throws all that the generator would say of this text, but before the weights are read, which
// takes minutes.
Length check(const Model& model, const Prompt& prompt, const SamplingOptions& sampling) {
  const api::TextRequest request = request_of(model, prompt, sampling);
  const api::OpenedModel& opened = api::opened(model);
  choose(request, opened, opened.generation_config());
  const std::int64_t tokens = std::ssize(request.ids);
  return {.prompt = tokens,
          .positions = tokens + check_request(request, opened, model.max_positions()).most};
}

Model open(const GenerateOptions& options) {
  // A bad number of threads is refused before a tokenizer is read for it.
  engine::check_threads(options.threads);
  return Model::open(options.model, {.tokenizer = options.tokenizer,
                                     .verify = options.verify,
                                     .host_memory = options.host_memory});
}

// The key-value cache is made for these texts alone. Prompts are encoded again by the generator;
// that costs nothing beside the weights.
Generator load(const Model& model, const GenerateOptions& options, const Length& length,
               std::int64_t sequences, const std::stop_token& stop) {
  return Generator(model,
                   {.positions = length.positions,
                    .prompt_tokens = length.prompt,
                    .sequences = sequences,
                    .dtype = options.dtype,
                    .device = options.device,
                    .threads = options.threads,
                    .device_memory = options.device_memory,
                    .host_memory = options.host_memory,
                    .trace = options.trace,
                    .placement = options.placement},
                   stop);
}

// Texts end in any order and are told in that of their prompts.
class InOrder {
 public:
  InOrder(std::size_t count, const std::function<bool(const GenerateSummary&)>& told)
      : ended_(count), told_(told) {}

  void add(std::size_t index, const GenerateSummary& summary) {
    ended_[index] = summary;
    for (; wanted_ && next_ < ended_.size() && ended_[next_]; ++next_) {
      const bool called_off = ended_[next_]->ended_by == EndedBy::caller;
      // One that was called off before it began is none.
      const bool begun = !called_off || ended_[next_]->prompt_seconds > 0;
      wanted_ = begun && told_(*ended_[next_]) && !called_off;
      ended_[next_].reset();
    }
  }
  bool wanted() const { return wanted_; }

 private:
  std::vector<std::optional<GenerateSummary>> ended_;
  const std::function<bool(const GenerateSummary&)>& told_;
  std::size_t next_ = 0;
  bool wanted_ = true;
};

}  // namespace

GenerateSummary generate(const GenerateOptions& options, const TextSink& sink,
                         std::stop_token stop) {
  if (!options.chat && !options.system.empty()) {
    throw ConfigError("--system: it goes through the chat template; add --chat");
  }
  const Model model = open(options);
  const Prompt prompt{.text = options.prompt,
                      .messages = options.chat ? messages_of(options) : std::vector<ChatMessage>()};
  Generator generator = load(model, options, check(model, prompt, options), 1, stop);
  return prompt.messages.empty() ? generator.generate(prompt.text, options, sink, stop)
                                 : generator.answer(prompt.messages, options, sink, stop);
}

void generate_each(const GenerateOptions& options, const std::vector<Prompt>& prompts,
                   const std::function<bool(const GenerateSummary&)>& answered,
                   std::stop_token stop) {
  const std::int64_t sequences =
      std::min(api::check_sequences(options.sequences), std::ssize(prompts));
  const Model model = open(options);
  Length longest;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    try {
      const Length length = check(model, prompts[i], options);
      longest = {.prompt = std::max(longest.prompt, length.prompt),
                 .positions = std::max(longest.positions, length.positions)};
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{} (prompt {} of {})", error.what(), i + 1, prompts.size()));
    }
  }
  if (prompts.empty()) return;
  Generator generator = load(model, options, longest, sequences, stop);
  InOrder order(prompts.size(), answered);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    generator.begin({.prompt = prompts[i],
                     .sampling = options,
                     .ended = [&order, i](const GenerateSummary& text) { order.add(i, text); },
                     .stop = stop});
  }
  while (order.wanted() && generator.advance()) {
  }
}

}  // namespace ebb
