// Tokenizer files write their patterns in Oniguruma's dialect; PCRE2 reads another one.
#pragma once

#include <string>
#include <string_view>

namespace ebb::text::bpe {

// The same pattern for PCRE2 with UTF, UCP, MULTILINE and newlines that are LF only. What the two
// read differently is rewritten (\s, \w, \v, \u....); what cannot be, or is not worth it, is
// refused: nested and intersected sets, \b, back references, options other than (?i:...). Throws
// FormatError with `where` and the construct.
std::string to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace ebb::text::bpe
