#include "ebb/model.h"

#include <fmt/format.h>

#include "api/opened_model.h"
#include "base/json.h"
#include "base/machine.h"
#include "ebb/error.h"
#include "io/posix_file_system.h"

namespace ebb {

namespace api {

const OpenedModel& opened(const Model& model) { return *model.opened_; }

std::optional<files::GenerationConfig> OpenedModel::generation_config() const {
  io::PosixFileSystem files;
  return files::read_generation_config(files, source().folder);
}

}  // namespace api

Model Model::open(const std::string& model, const ModelOptions& options) {
  io::PosixFileSystem files;
  auto opened = std::make_shared<api::OpenedModel>();
  opened->options = options;
  // One renderer: a Model renders on the thread that calls it, unlike a run, whose workers all do.
  opened->model = engine::open_model(files, model, options.tokenizer,
                                     options.host_memory.value_or(usable_memory()), 1);
  return Model(std::move(opened));
}

const std::string& Model::name() const { return opened_->source().name; }

std::int64_t Model::parameters() const {
  return model::parameters_of(opened_->source().config).count();
}

std::int64_t Model::vocabulary() const { return opened_->source().config.vocabulary; }

std::int64_t Model::max_positions() const { return opened_->source().config.max_positions; }

bool Model::has_weights() const { return opened_->source().has_weights(); }

bool Model::has_chat_template() const { return opened_->found_tokenizer().parts.chat.has_value(); }

std::vector<std::int32_t> Model::encode(std::string_view text) const {
  const text::Tokenizer& tokenizer = opened_->tokenizer();
  std::vector<std::int32_t> ids = tokenizer.prefix();
  const std::vector<std::int32_t> more = tokenizer.encode(text);
  ids.insert(ids.end(), more.begin(), more.end());
  // An empty prompt starts where every text starts: behind the end of another.
  if (ids.empty()) ids.push_back(tokenizer.end_of_text());
  return ids;
}

std::string Model::decode(std::span<const std::int32_t> ids) const {
  return opened_->tokenizer().decode(ids);
}

std::string Model::render_chat(const std::vector<ChatMessage>& messages) const {
  const text::TokenizerFolder& parts = opened_->found_tokenizer().parts;
  if (!parts.chat) {
    throw ConfigError(
        fmt::format("--chat: the model {} brings no chat template (chat_template.jinja, or "
                    "chat_template in tokenizer_config.json); leave --chat out, or give "
                    "--tokenizer FOLDER with one",
                    name()));
  }
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  // true: the template also writes what an answer begins with.
  return parts.chat->render(list, parts.special_tokens, true);
}

// The template writes out whatever the model wants before a text: the tokenizer adds nothing.
std::vector<std::int32_t> Model::encode_chat(const std::vector<ChatMessage>& messages) const {
  return opened_->tokenizer().encode(render_chat(messages));
}

}  // namespace ebb
