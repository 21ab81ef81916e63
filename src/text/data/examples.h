// A line of a JSONL file as an example to learn from.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "text/data/item.h"

namespace ebb::text {

// The JSON object on a line. `where` names the file and the line in errors. Throws FormatError for
// invalid UTF-8 (with the offset in the line), what is not JSON and what is not an object.
Json parse_example(const std::string& line, const std::string& where);

// texts: {"text"}, completions: {"prompt", "completion"}, conversations: {"messages"}; other keys
// are passed over. Where a line could be several, it is the last of these. Throws FormatError that
// lists the keys found and those expected.
Form form_of(const Json& example, const std::string& where);

// The example's tokens. Throws FormatError where it has not the keys of `form`, or values of other
// types. The tokens of a prompt are those that it has alone: so the model learns to go on from the
// very tokens that it sees when it generates.
Item encode_example(const Json& example, Form form, const Encoding& encoding,
                    const std::string& where);

// Part of encode_example. The assistant's part is what the template adds for its message to the
// text that asks for an answer. Throws FormatError where there is no template, no assistant, or
// where the template writes an earlier part of the conversation differently later on.
Item encode_conversation(const Json& messages, const Encoding& encoding, const std::string& where);

}  // namespace ebb::text
