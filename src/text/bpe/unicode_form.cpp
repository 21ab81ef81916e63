#include "text/bpe/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "base/to_size.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

bool composes(UnicodeForm form) { return form == UnicodeForm::nfc || form == UnicodeForm::nfkc; }

bool is_compatible(UnicodeForm form) {
  return form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
}

int combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

void decompose(char32_t character, UnicodeForm form, std::vector<utf8proc_int32_t>& out) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  std::array<utf8proc_int32_t, 32> buffer;  // the longest decomposition has 18 characters
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), buffer.data(),
                              static_cast<utf8proc_ssize_t>(buffer.size()), options, &boundary);
  out.insert(out.end(), buffer.begin(), buffer.begin() + count);
}

// Marks stand in the order of their classes, those of one class as they came.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  for (auto first = characters.begin(); first != characters.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last =
        std::find_if(first, characters.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(first, last,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
}

void append_normalized(std::string_view run, UnicodeForm form, std::string& out) {
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(run.size());
  for (std::size_t at = 0; at < run.size();) {
    decompose(next_character(run, at), form, characters);
  }
  order_marks(characters);
  auto count = static_cast<utf8proc_ssize_t>(characters.size());
  if (composes(form)) {
    count = utf8proc_normalize_utf32(
        characters.data(), count,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_character(static_cast<char32_t>(characters[to_size(i)]), out);
  }
}

}  // namespace

bool is_inert(char32_t c, UnicodeForm form) {
  if (c < 0x80) return true;
  if (is_compatible(form)) return false;
  if (c >= 0x4e00 && c <= 0x9fff) return true;  // Chinese characters
  if (form == UnicodeForm::nfd) return false;
  return c < 0x300 || (c >= 0x410 && c <= 0x44f) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30a1 && c <= 0x30fa) || (c >= 0x3000 && c <= 0x3029) ||
         (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xff00 && c <= 0xffef);
}

std::string_view normalize(std::string_view text, UnicodeForm form, std::string& storage) {
  storage.clear();
  std::size_t copied = 0;  // what lies before it is in `storage`, if anything is
  // A run is the character before the first that is not inert, up to the next ASCII one: what
  // follows cannot reach into it, nor it into what comes before.
  std::size_t previous = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (is_inert(next_character(text, at), form)) {
      previous = begin;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
    storage += text.substr(copied, previous - copied);
    append_normalized(text.substr(previous, end - previous), form, storage);
    copied = previous = at = end;
  }
  if (copied == 0) return text;
  storage += text.substr(copied);
  return storage;
}

}  // namespace ebb::text::bpe
