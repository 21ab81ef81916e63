// A model with its weights in memory, which writes any number of texts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "ebb/generate.h"
#include "ebb/model.h"

namespace ebb {

// What of the sequence before stays in the key-value cache, where the next prompt begins like it.
enum class PrefixReuse : std::uint8_t {
  // What a sequence of its own would compute in the very same pieces: whole slices of prompts.
  // Every text is, to the bit, the one that its prompt gets alone.
  slices,
  // All of it, with the text that was generated: only new tokens are computed, as a chat wants it.
  // Some devices round a token differently alone than in a slice, so that a text may then differ.
  all,
};

struct GeneratorOptions {
  // Tokens that a sequence may have, prompt included: the key-value cache is made for so many.
  // 0: as many as the model knows, 4096 at most.
  std::int64_t positions = 0;
  // Of the prompts that are to come, about: the plan is made for it. 0: not known.
  std::int64_t prompt_tokens = 0;
  // Texts that are written at once at most: there is a key-value cache for each.
  std::int64_t sequences = 1;
  FloatType dtype = FloatType::automatic;  // as stored
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;  // 0: as many as the machine lets us use
  // Limits of this generator; none means what the machine has left when it is made.
  std::optional<Bytes> device_memory{};
  std::optional<Bytes> host_memory{};
  // A file for the lanes of a text's last tokens (docs/trace.md), written anew with every text.
  // Empty: none.
  std::string trace{};
  GenerationPlacement placement{};
  PrefixReuse reuse = PrefixReuse::slices;
};

// A text to be written beside others.
struct TextJob {
  Prompt prompt{};                  // a text to continue, or a conversation to answer
  std::vector<std::int32_t> ids{};  // where there are any: the prompt's, instead
  SamplingOptions sampling{};
  TextSink sink{};
  // Called once, when the text has ended. It may begin others.
  std::function<void(const GenerateSummary&)> ended{};
  // Ends this text between tokens or slices of its prompt (EndedBy::caller).
  std::stop_token stop{};
};

// Calls come from one thread at a time; several generators may work at once, each in memory and
// with threads of its own. Failures are an ebb::Error; after a ConfigError it is as it was.
class Generator {
 public:
  // Plans (OutOfBudget), takes all memory and reads the weights: `stop` ends that with Cancelled.
  explicit Generator(const Model& model, const GeneratorOptions& options = {},
                     std::stop_token stop = {});
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // Continues a text. Every call is a sequence of its own: equal prompts, options and seeds give
  // equal texts (but see PrefixReuse::all). `stop` ends it after the slice or token under way
  // (EndedBy::caller). Texts that were begun before go on meanwhile.
  GenerateSummary generate(const std::string& prompt, const SamplingOptions& sampling = {},
                           const TextSink& sink = {}, std::stop_token stop = {});
  GenerateSummary generate(std::span<const std::int32_t> prompt,
                           const SamplingOptions& sampling = {}, const TextSink& sink = {},
                           std::stop_token stop = {});
  // Answers a conversation, put through the model's chat template.
  GenerateSummary answer(const std::vector<ChatMessage>& messages,
                         const SamplingOptions& sampling = {}, const TextSink& sink = {},
                         std::stop_token stop = {});

  // Texts beside each other. begin() checks one as generate() does and puts it behind those that
  // wait; it begins when a sequence is free. advance() takes all that have begun further: by a
  // slice of one prompt, and by a token of every text that is behind its prompt. Texts join and
  // leave between tokens; a beginning that a prompt shares with any sequence is copied and not
  // computed. Returns whether there is more to do. Sinks and `ended` are called by advance(); what
  // they throw ends their text alone and comes to the caller, and the others go on with the next
  // call.
  //
  // On the cpu device every text is, to the bit, the one that its prompt gets alone, whatever is
  // written beside it (but see PrefixReuse::all). On a GPU products of several rows may round
  // otherwise than those of one: there a text may depend on how many are written beside it.
  void begin(TextJob job);
  bool advance();

  const Model& model() const;
  std::int64_t positions() const;  // of each sequence
  std::int64_t sequences() const;

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

// How tokens would be chosen, for people: what GenerateSummary::settings says. Throws ConfigError
// for options that no text could be written with.
std::string explain_sampling(const Model& model, const SamplingOptions& sampling);

}  // namespace ebb
