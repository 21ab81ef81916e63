// What a line of JSONL or a row of CSV has to learn from.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "text/data/item.h"
#include "text/data/item_file.h"

namespace ebb::text {

// Which keys of an example hold what.
struct Layout {
  enum class Kind {
    text,         // `key`
    completion,   // "prompt", "completion"
    messages,     // `key`: a list of {"role", "content"}, or {"from", "value"}
    instruction,  // "instruction", "output" and perhaps "input"
  };
  Kind kind = Kind::text;
  std::string key = {};
};

// Instructions are conversations: that is what becomes of them where there is a chat template.
Form form_of(const Layout& layout);

// Throws FormatError for what is not UTF-8, with the offset in the record.
void check_utf8(std::string_view record, std::string_view where);

// The JSON object on a line. `where` names the file and the line in errors. Throws FormatError for
// invalid UTF-8, what is not JSON, also for half of a character ("\ud800"), and what is not an
// object.
Json parse_example(const std::string& line, const std::string& where);

// What `columns` names, or else the last of these that the example has: "text"; "instruction" and
// "output", as of Alpaca; "prompt" and "completion"; "conversations", as of ShareGPT; "messages".
// Throws FormatError that lists the keys found and those expected.
Layout layout_of(const Json& example, const Columns& columns, const std::string& where);

// The example's tokens. Throws FormatError where it has not the keys of `layout`, or values of
// other types. The tokens of a prompt are those that it has alone: so the model learns to go on
// from the very tokens that it sees when it generates. An instruction is what a user says and the
// output what the assistant does; without a chat template it is a prompt, ended by a line feed.
Item encode_example(const Json& example, const Layout& layout, const Encoding& encoding,
                    const std::string& where);

// Part of encode_example. The assistant's part is what the template adds for its message to the
// text that asks for an answer. Throws FormatError where there is no template, no assistant, or
// where the template writes an earlier part of the conversation differently later on.
Item encode_conversation(const Json& messages, const Encoding& encoding, const std::string& where);

}  // namespace ebb::text
