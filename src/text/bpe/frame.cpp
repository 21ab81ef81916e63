#include "text/bpe/frame.h"

#include <fmt/format.h>

#include "base/in_quotes.h"

namespace ebb::text::bpe {

namespace {

// Far more than any tokenizer puts around a text. Every mention of a name repeats all its ids, so
// a file could make many times its size of them.
constexpr std::size_t kMostTokens = 1024;

// A template for one text: [{"SpecialToken": {"id": NAME}}, {"Sequence": {"id": "A"}}, ...], and
// the ids of the names beside it.
Frame read_template(const JsonPart& part, std::int32_t vocabulary) {
  Frame frame;
  bool behind = false;
  const JsonPart single = part.at("single");
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonPart item = single[i];
    if (item.has("Sequence")) {
      if (behind) item.refuse("the template has the text twice, which is not supported");
      behind = true;
      continue;
    }
    const std::string& name = item.at("SpecialToken").at("id").text();
    const JsonPart ids = part.at("special_tokens").at(name).at("ids");
    auto& tokens = behind ? frame.suffix : frame.prefix;
    if (tokens.size() + ids.size() > kMostTokens) {
      part.refuse(fmt::format("more than {} tokens before or behind a text", kMostTokens));
    }
    for (std::size_t k = 0; k < ids.size(); ++k) {
      tokens.push_back(static_cast<std::int32_t>(ids[k].number(0, vocabulary - 1)));
    }
  }
  if (!behind) part.refuse("the template has no place for the text");
  return frame;
}

}  // namespace

Frame read_frame(const JsonPart& tokenizer, std::int32_t vocabulary) {
  Frame frame;
  for (const JsonPart& part : sequence_of(tokenizer, "post_processor", "processors")) {
    const std::string& type = part.type();
    if (type == "ByteLevel") continue;  // it only moves offsets
    if (type != "TemplateProcessing") {
      part.refuse(
          fmt::format("the post-processor {} is not supported; ByteLevel, "
                      "TemplateProcessing and Sequence are",
                      in_quotes(type)));
    }
    // Each one frames what those before it made.
    const Frame outer = read_template(part, vocabulary);
    frame.prefix.insert(frame.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    frame.suffix.insert(frame.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return frame;
}

}  // namespace ebb::text::bpe
