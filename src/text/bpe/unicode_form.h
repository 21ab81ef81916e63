// Unicode's normalization forms, as of Unicode 14. The tokenizers library has older tables: of the
// marks and compatibility characters that came after Unicode 9, a hundred or so differ there.
#pragma once

#include <string>
#include <string_view>

namespace ebb::text::bpe {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Whether a character is its own form and neither combines with nor reorders what stands before it.
// May say no where yes is true: what it says yes to is only passed over faster.
bool is_inert(char32_t character, UnicodeForm form);

// `text`, which is valid UTF-8, in that form: itself where nothing changes, else in `storage`.
// Time grows with the length, whatever the marks (sorting them is not left to pairwise swaps).
std::string_view normalize(std::string_view text, UnicodeForm form, std::string& storage);

}  // namespace ebb::text::bpe
