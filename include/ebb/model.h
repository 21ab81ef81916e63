// A model that was opened: its configuration and its tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/prompts.h"
#include "ebb/units.h"

namespace ebb {

class Model;
namespace api {
struct OpenedModel;
const OpenedModel& opened(const Model& model);
}  // namespace api

struct ModelOptions {
  std::string
      tokenizer{};     // a folder with tokenizer.json, or bytes; empty: the model's own, or bytes
  bool verify = true;  // a checkpoint's checksums, each time before weights are read from it
  std::optional<Bytes> host_memory{};  // the most that reading the tokenizer may take
};

// Copies share what was read, which never changes: they are cheap, any thread may use them, and
// any number of generators and trainers too. Weights are not part of it: a Generator or a Trainer
// reads them, each into memory of its own.
class Model {
 public:
  // `model`: a folder with config.json and safetensors files, a GGUF file, a run's folder (its last
  // checkpoint), or preset:NAME, whose weights are random. Throws ConfigError, IoError,
  // FormatError, and OutOfBudget for a tokenizer beyond the limit.
  static Model open(const std::string& model, const ModelOptions& options = {});

  const std::string& name() const;  // as it was opened
  std::int64_t parameters() const;
  std::int64_t vocabulary() const;     // rows of the embedding; a tokenizer may have fewer ids
  std::int64_t max_positions() const;  // tokens of a sequence
  bool has_weights() const;            // false for a preset
  bool has_chat_template() const;

  // A prompt's ids: with what the tokenizer puts before every text. Never empty.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Throws ConfigError for an id that the tokenizer does not know.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The text of a conversation up to where the answer begins. Throws ConfigError where the model
  // brings no chat template, FormatError where the template refuses it.
  std::string render_chat(const std::vector<ChatMessage>& messages) const;
  // The ids of that text, as a Generator answers it. Throws as render_chat() does.
  std::vector<std::int32_t> encode_chat(const std::vector<ChatMessage>& messages) const;

 private:
  friend const api::OpenedModel& api::opened(const Model& model);
  explicit Model(std::shared_ptr<const api::OpenedModel> opened) : opened_(std::move(opened)) {}

  std::shared_ptr<const api::OpenedModel> opened_;
};

}  // namespace ebb
