#include "text/bpe/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

Normalizer::Normalizer(const JsonPart& tokenizer) {
  for (const JsonPart& part : sequence_of(tokenizer, "normalizer", "normalizers")) {
    steps_.push_back(read(part));
  }
}

Normalizer::Step Normalizer::read(const JsonPart& part) {
  const std::string& type = part.type();
  if (type == "NFC") return UnicodeForm::nfc;
  if (type == "NFD") return UnicodeForm::nfd;
  if (type == "NFKC") return UnicodeForm::nfkc;
  if (type == "NFKD") return UnicodeForm::nfkd;
  if (type == "Prepend") return Prepend{part.at("prepend").text()};
  if (type == "Replace") return Replace{Pattern(part.at("pattern")), part.at("content").text()};
  if (type == "Strip") {
    return Strip{part.flag_or("strip_left", true), part.flag_or("strip_right", true)};
  }
  if (type == "Lowercase") return Lowercase{};
  part.refuse(fmt::format(
      "the normalizer '{}' is not supported; NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
      "Lowercase and Sequence are",
      type));
}

Piece Normalizer::apply(Piece piece, std::array<std::string, 2>& storage,
                        MatchScratch& scratch) const {
  std::size_t free = 0;
  for (const Step& step : steps_) {
    std::visit([&](const auto& s) { piece = run(s, piece, storage[free], scratch); }, step);
    if (piece.text.data() == storage[free].data()) free = 1 - free;
  }
  return piece;
}

Piece Normalizer::run(UnicodeForm form, Piece piece, std::string& storage, MatchScratch&) {
  return {normalize(piece.text, form, storage), piece.at_start};
}

Piece Normalizer::run(const Prepend& step, Piece piece, std::string& storage, MatchScratch&) {
  if (piece.text.empty()) return piece;
  storage.assign(step.text);
  storage += piece.text;
  return {storage, piece.at_start};
}

Piece Normalizer::run(const Replace& step, Piece piece, std::string& storage,
                      MatchScratch& scratch) {
  const std::string_view text = piece.text;
  Span match;
  std::size_t copied = 0;
  while (copied < text.size() && step.pattern.next(text, copied, scratch, match)) {
    if (copied == 0) storage.clear();
    if (match.begin == 0 && step.with.empty()) piece.at_start = false;
    storage += text.substr(copied, match.begin - copied);
    storage += step.with;
    copied = match.end;
  }
  if (copied == 0) return piece;
  storage += text.substr(copied);
  return {storage, piece.at_start};
}

Piece Normalizer::run(const Strip& step, Piece piece, std::string&, MatchScratch&) {
  std::string_view text = piece.text;
  std::size_t begin = 0;
  for (std::size_t at = 0; step.left && at < text.size() && is_space(next_character(text, at));) {
    begin = at;
  }
  text.remove_prefix(begin);
  while (step.right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (!begins_character(text[last])) --last;
    std::size_t at = last;
    if (!is_space(next_character(text, at))) break;
    text = text.substr(0, last);
  }
  return {text, piece.at_start && begin == 0};
}

Piece Normalizer::run(const Lowercase&, Piece piece, std::string& storage, MatchScratch&) {
  storage.clear();
  for (std::size_t at = 0; at < piece.text.size();) {
    const char32_t character = next_character(piece.text, at);
    append_character(
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), storage);
    // The one character whose small form is two: a dotted capital I.
    if (character == 0x130) append_character(0x307, storage);
  }
  return {storage, piece.at_start};
}

}  // namespace ebb::text::bpe
