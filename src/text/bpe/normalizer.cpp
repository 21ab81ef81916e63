#include "text/bpe/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

// A compatible form takes up to eleven bytes for one. Replacements of replacements could take any
// number, and fill the memory.
constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kLeastRoom = 256;

}  // namespace

Normalizer::Normalizer(const JsonPart& tokenizer) : place_(tokenizer.place() + ".normalizer") {
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
      "the normalizer {} is not supported; NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
      "Lowercase and Sequence are",
      in_quotes(type)));
}

Piece Normalizer::apply(Piece piece, std::array<std::string, 2>& storage,
                        MatchScratch& scratch) const {
  const std::size_t most = kMostGrowth * piece.text.size() + kLeastRoom;
  std::size_t free = 0;
  for (const Step& step : steps_) {
    const Work work{storage[free], scratch, most};
    std::visit([&](const auto& s) { piece = run(s, piece, work); }, step);
    if (piece.text.size() > most) {
      throw FormatError(
          fmt::format("{}: it makes more than {} bytes of a text; that is no "
                      "normalizer's work, so the file is damaged",
                      place_, most));
    }
    if (piece.text.data() == storage[free].data()) free = 1 - free;
  }
  return piece;
}

Piece Normalizer::run(UnicodeForm form, Piece piece, const Work& work) {
  return piece.part(normalize(piece.text, form, work.storage), true);
}

Piece Normalizer::run(const Prepend& step, Piece piece, const Work& work) {
  if (piece.text.empty() || piece.continues) return piece;
  work.storage.assign(step.text);
  work.storage += piece.text;
  return piece.part(work.storage, true);
}

Piece Normalizer::run(const Replace& step, Piece piece, const Work& work) {
  const std::string_view text = piece.text;
  TextRange match;
  Matches matches(step.pattern, text, work.scratch);
  std::size_t copied = 0;
  work.storage.clear();
  while (copied < text.size() && work.storage.size() <= work.most && matches.next(copied, match)) {
    if (match.begin == 0 && step.with.empty()) piece.at_start = false;
    work.storage += text.substr(copied, match.begin - copied);
    work.storage += step.with;
    copied = match.end;
  }
  if (copied == 0) return piece;
  work.storage += text.substr(copied);
  return piece.part(work.storage, true);
}

Piece Normalizer::run(const Strip& step, Piece piece, const Work&) {
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
  return piece.part(text, begin == 0);
}

Piece Normalizer::run(const Lowercase&, Piece piece, const Work& work) {
  work.storage.clear();
  for (std::size_t at = 0; at < piece.text.size();) {
    const char32_t character = next_character(piece.text, at);
    append_character(
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))),
        work.storage);
    // The one character whose small form is two: a dotted capital I.
    if (character == 0x130) append_character(0x307, work.storage);
  }
  return piece.part(work.storage, true);
}

}  // namespace ebb::text::bpe
