// A model's chat template: a conversation in, the text the model was trained on out. Templates are
// written in Jinja; a file of this folder reads the part of it that they use.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "text/chat/render_limits.h"

namespace ebb::text {

namespace jinja {
struct Template;
}

// Immutable, so any thread may call it.
class ChatTemplate {
 public:
  // Throws FormatError with the line and what is wrong or not supported there. `where` names the
  // file in errors.
  ChatTemplate(std::string_view source, std::string where, RenderLimits limits = {});

  // `messages` is a JSON array of {"role", "content"} objects, as people write them. `tokens` are
  // the strings that templates call by name: bos_token, eos_token. With `answer_next` the text ends
  // where the assistant begins to speak. Throws FormatError, also where the template itself
  // refuses the conversation.
  std::string render(const Json& messages, const std::map<std::string, std::string>& tokens,
                     bool answer_next) const;

  // What the most that a rendering holds at once is from now on; before others render. Beyond it
  // render() throws FormatError.
  void limit_memory(std::size_t bytes) { limits_.memory = bytes; }
  std::size_t rendering_bytes() const { return limits_.memory; }
  // What the template itself holds, about.
  std::size_t memory_bytes() const { return memory_bytes_; }

 private:
  std::shared_ptr<const jinja::Template> template_;
  std::string where_;
  RenderLimits limits_;
  std::size_t memory_bytes_;
};

}  // namespace ebb::text
