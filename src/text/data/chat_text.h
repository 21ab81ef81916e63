// The text of a conversation, and which parts of it the assistant says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/data/item.h"

namespace ebb::text {

struct ChatText {
  struct Part {
    std::size_t end = 0;  // in the text; the part begins where the one before it ends
    bool answer = false;
  };
  std::string text;
  std::vector<Part> parts;
};

// What a conversation may take, in bytes that are rendered or tokenized. Time grows with the number
// of messages, not with its square, unless a template forces it: then this is what ends it.
inline constexpr std::size_t kMostChatWork = std::size_t{1} << 30;

// `messages` are well formed, with at least one of the assistant. By definition, the assistant's
// part is what the template adds for its message to the text that asks for an answer. Throws
// FormatError that begins with `where`: what the template throws, where it writes an earlier part
// of the conversation differently later on, and where all that takes more than `most_work`.
ChatText chat_text(const Json& messages, const ChatRenderer& chat, const std::string& where,
                   std::size_t most_work = kMostChatWork);

// Throws FormatError for more than `most`.
void check_chat_work(std::size_t bytes, const std::string& where, std::size_t most = kMostChatWork);

}  // namespace ebb::text
