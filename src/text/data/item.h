// Items: what a data set is made of, and the unit it is shuffled by.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "text/tokenizer.h"

namespace ebb::text {

// Tokens that belong together: a line of a JSONL file, a passage of a text, a window of a file of
// tokens.
struct Item {
  static constexpr std::int32_t kNextItem = -2;
  static constexpr std::int32_t kUnknown = -1;

  // A token's id, or ~id where predicting it carries no loss.
  std::vector<std::int32_t> tokens;
  // What the last token should predict where tokens run on: an id, kNextItem (a document ended, so
  // the beginning of whatever comes next) or kUnknown (the text goes on in another item).
  std::int32_t next = kNextItem;
  // Where tokens begin, but for the first, that do not go on from those before them: each such part
  // is laid into rows as an item of its own. Most items have one part.
  std::vector<std::size_t> part_begins = {};
  // What is wrong with an item that is to be skipped, which has no tokens; empty for all others.
  std::string problem = {};
};

constexpr std::int32_t id_of(std::int32_t token) { return token < 0 ? ~token : token; }
constexpr std::int32_t target_of(std::int32_t token) { return token < 0 ? -1 : token; }

// What comes behind a text: what the tokenizer wants there, and end of text, once.
inline std::vector<std::int32_t> ending(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = tokenizer.suffix();
  if (ids.empty() || ids.back() != tokenizer.end_of_text()) ids.push_back(tokenizer.end_of_text());
  return ids;
}

// What the items of a file are.
enum class Form {
  passages,       // pieces of plain text
  windows,        // pieces of a stream of tokens
  texts,          // JSONL: whole texts
  completions,    // JSONL: prompts with their completions
  conversations,  // JSONL: lists of messages
};

// How a conversation is written for the model. With `answer_next` the text ends where the assistant
// begins to speak. Called by several threads at once.
using ChatRenderer = std::function<std::string(const Json& messages, bool answer_next)>;

// How items become tokens. The tokenizer must outlive it.
struct Encoding {
  const Tokenizer* tokenizer = nullptr;
  // Of the model: no id of a file of tokens may reach it.
  std::int32_t vocabulary = 0;
  // Prompts and what others than the assistant say carry loss, too.
  bool loss_on_all = false;
  // Empty where the model has no chat template.
  ChatRenderer chat;
};

}  // namespace ebb::text
