// The text of a conversation, and which parts of it the assistant says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ebb/units.h"
#include "text/data/item.h"

namespace ebb::text {

struct ChatText {
  struct Part {
    std::size_t end = 0;  // in the text; the part begins where the one before it ends
    bool answer = false;
    bool anew = false;  // the conversation is written again from its beginning
  };
  std::string text;
  std::vector<Part> parts;
};

// Where a conversation is written again and again, no more than so many times its text, and no more
// than so many bytes.
inline constexpr Bytes kMostPartsGrowth = 32;
inline constexpr Bytes kMostPartsText = 8 * kMiB;

// What a conversation may take, in bytes that are rendered or tokenized. Time grows with the number
// of messages, not with its square, unless a template forces it: then this is what ends it.
inline constexpr std::size_t kMostChatWork = std::size_t{1} << 30;

// `messages` are well formed, with at least one of the assistant. By definition, the assistant's
// part is what the template adds for its message to the text that asks for an answer. Two kinds of
// templates do not only add:
// - Some write earlier turns in another way once more is said (they drop what was thought). Then
//   the text begins anew for the next answer, as it does when the model is asked for it.
// - Some ask for an answer with words that they leave out once they have it ("<think>\n"), with
//   all that was thought. Then the part is what the message says, behind these words, and what
//   the template puts behind it; a message that does not begin with them is refused.
// Throws FormatError that begins with `where`: what the template throws, such a message, and where
// all that takes more than `most_work`.
ChatText chat_text(const Json& messages, const ChatRenderer& chat, const std::string& where,
                   std::size_t most_work = kMostChatWork);

// Throws FormatError for more than `most`.
void check_chat_work(std::size_t bytes, const std::string& where, std::size_t most = kMostChatWork);

}  // namespace ebb::text
