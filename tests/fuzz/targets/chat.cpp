// A chat template in Jinja, and the messages behind it.
#include "base/json.h"
#include "fuzz/parts.h"
#include "fuzz/target.h"
#include "text/bpe/utf8.h"
#include "text/chat/chat_template.h"

namespace ebb::fuzz {
namespace {

// A character of a template may be a node of its tree, and a token with a string before that.
constexpr Bytes kBytesPerByte = 400;
// Less than a template gets elsewhere: what takes long is no finding, and would hide those behind
// it.
constexpr text::RenderLimits kLimits{.work = 100'000, .text_bytes = 1 * kMiB};
// What these limits allow: 64 bytes of text or an element of 40 for a step of work, the text that
// grows by doubling, and objects that are counted apart.
constexpr Bytes kRendering = 32 * kMiB;

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const auto body = [](std::string_view input) {
    const auto [source, behind] = two_parts(input);
    const text::ChatTemplate chat(source, "chat_template.jinja", kLimits);
    const Json messages = parse_json(behind, "messages");
    for (const bool answer_next : {false, true}) {
      const auto render = [&] {
        return chat.render(messages, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, answer_next);
      };
      const std::string text = render();
      require(text::bpe::valid_bytes(text) == text.size(), "a text is UTF-8");
      require(text.size() <= 2 * kLimits.text_bytes, "a text is bounded");
      require(source.find("now") != std::string_view::npos || render() == text,
              "a template means one thing, unless it asks for the time");
    }
  };
  return run(data, size, {.bytes_per_byte = kBytesPerByte, .free_bytes = kRendering}, body);
}
