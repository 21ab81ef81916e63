#include "text/bpe/pre_tokenizer.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

// The split that byte-level tokenizers have built in.
constexpr std::string_view kBytesPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Bytes that a step may see for each byte of a text, and for a short one. Spelling a byte takes two
// and a prefix four for each piece; steps that do so again and again would double the text each.
constexpr std::size_t kMostSeen = 64;
constexpr std::size_t kLeastSeen = 256;

}  // namespace

PreTokenizer::PreTokenizer(const JsonPart& tokenizer)
    : place_(tokenizer.place() + ".pre_tokenizer") {
  for (const JsonPart& part : sequence_of(tokenizer, "pre_tokenizer", "pretokenizers")) read(part);
  if (steps_.empty()) return;
  if (auto* bytes = std::get_if<Bytes>(&steps_.back())) {
    leaves_bytes_ = true;
    bytes->spell = false;
  }
}

PreTokenizer::Delimiter PreTokenizer::read_delimiter(const JsonPart& part) {
  const std::string& behavior = part.text();
  if (behavior == "Isolated") return Delimiter::isolated;
  if (behavior == "Removed") return Delimiter::removed;
  if (behavior == "Contiguous") return Delimiter::contiguous;
  if (behavior == "MergedWithPrevious") return Delimiter::with_previous;
  if (behavior == "MergedWithNext") return Delimiter::with_next;
  part.refuse(fmt::format("the behavior {} is not known", in_quotes(behavior)));
}

void PreTokenizer::read(const JsonPart& part) {
  const std::string& type = part.type();
  if (type == "ByteLevel") {
    // The pattern sees the prefix space, and what it cuts is spelled.
    const bool prefix = part.flag_or("add_prefix_space", true);
    const bool cuts = part.flag_or("use_regex", true);
    if (cuts && prefix) steps_.emplace_back(Bytes{true, false});
    if (cuts) steps_.emplace_back(Split{Pattern(kBytesPattern, part.place())});
    steps_.emplace_back(Bytes{prefix && !cuts, true});
  } else if (type == "Split") {
    steps_.emplace_back(Split{Pattern(part.at("pattern")), read_delimiter(part.at("behavior")),
                              part.flag_or("invert", false)});
  } else if (type == "Digits") {
    steps_.emplace_back(Split{
        Pattern::of_pcre2(R"(\p{N})"),
        part.flag_or("individual_digits", false) ? Delimiter::isolated : Delimiter::contiguous});
  } else if (type == "Whitespace") {
    steps_.emplace_back(Split{Pattern(R"(\w+|[^\w\s]+)", part.place()), Delimiter::removed, true});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(Split{Pattern(R"(\s)", part.place()), Delimiter::removed});
  } else if (type == "Metaspace") {
    Metaspace step{part.at("replacement").text()};
    if (step.replacement.empty() ||
        character_bytes(step.replacement[0]) != step.replacement.size()) {
      part.at("replacement").refuse("expected one character");
    }
    // Older files have a flag where newer ones have a name.
    const std::string prefix =
        part.text_or("prepend_scheme", part.flag_or("add_prefix_space", true) ? "always" : "never");
    if (prefix == "first") {
      step.prefix = Prefix::first;
    } else if (prefix == "always" || prefix == "never") {
      step.prefix = prefix == "always" ? Prefix::always : Prefix::never;
    } else {
      part.refuse(fmt::format("the prepend_scheme {} is not known", in_quotes(prefix)));
    }
    const std::string replacement = step.replacement;
    steps_.emplace_back(std::move(step));
    if (part.flag_or("split", true)) {
      steps_.emplace_back(Split{Pattern::of_literal(replacement), Delimiter::with_next});
    }
  } else {
    part.refuse(
        fmt::format("the pre-tokenizer {} is not supported; ByteLevel, Split, Digits, Metaspace, "
                    "Whitespace, WhitespaceSplit and Sequence are",
                    in_quotes(type)));
  }
}

void PreTokenizer::split(Piece piece, MatchScratch& scratch,
                         FunctionRef<void(std::string_view)> word) const {
  if (piece.text.empty()) return;
  const std::size_t most = kMostSeen * piece.text.size() + kLeastSeen;
  Work work{scratch, word, (steps_.size() + 1) * most};
  run(0, piece, work);
}

// One piece goes through all steps before the next does, so that no list of pieces is ever kept.
void PreTokenizer::run(std::size_t step, Piece piece, Work& work) const {
  if (piece.text.size() > work.bytes_left) {
    throw FormatError(fmt::format(
        "{}: its steps make far more of a text than it is long; that is no pre-tokenizer's work, "
        "so the file is damaged",
        place_));
  }
  work.bytes_left -= piece.text.size();
  if (step == steps_.size()) return work.word(piece.text);
  std::visit(
      [&](const auto& s) {
        apply(s, piece, work.scratch, [&](Piece next) { run(step + 1, next, work); });
      },
      steps_[step]);
}

void PreTokenizer::apply(const Split& step, Piece piece, MatchScratch& scratch, Sink emit) {
  const std::string_view text = piece.text;
  const auto emit_span = [&](TextRange span) {
    if (span.begin < span.end) {
      emit(piece.part(text.substr(span.begin, span.end - span.begin), span.begin == 0));
    }
  };
  // What may still grow, and whether it ended with a delimiter.
  TextRange held;
  bool held_match = false;
  const auto take = [&](TextRange span, bool match) {
    bool joins = false;
    switch (step.delimiter) {
      case Delimiter::isolated: return emit_span(span);
      case Delimiter::removed:
        if (!match) emit_span(span);
        return;
      case Delimiter::contiguous: joins = match == held_match; break;
      case Delimiter::with_previous: joins = match && !held_match; break;
      case Delimiter::with_next: joins = !match && held_match; break;
    }
    if (joins && held.begin < held.end) {
      held.end = span.end;
    } else {
      emit_span(held);
      held = span;
    }
    held_match = match;
  };

  std::size_t done = 0;
  TextRange match;
  Matches matches(step.pattern, text, scratch);
  while (done < text.size() && matches.next(done, match)) {
    if (done < match.begin) take({done, match.begin}, step.invert);
    take(match, !step.invert);
    done = match.end;
  }
  if (done < text.size()) take({done, text.size()}, step.invert);
  emit_span(held);
}

void PreTokenizer::apply(const Bytes& step, Piece piece, MatchScratch&, Sink emit) {
  std::string changed;
  if (step.prefix_space && !piece.continues && !piece.text.starts_with(' ')) {
    changed.assign(" ").append(piece.text);
    piece.text = changed;
  }
  if (step.spell) {
    changed = spell_bytes(piece.text);
    piece.text = changed;
  }
  emit(piece);
}

void PreTokenizer::apply(const Metaspace& step, Piece piece, MatchScratch&, Sink emit) {
  std::string changed;
  changed.reserve(piece.text.size() + piece.text.size() / 2 + step.replacement.size());
  const bool prefixed = piece.text.starts_with(' ') || piece.text.starts_with(step.replacement);
  if (!prefixed && !piece.continues &&
      (step.prefix == Prefix::always || (step.prefix == Prefix::first && piece.at_start))) {
    changed += step.replacement;
  }
  for (const char c : piece.text) {
    if (c == ' ') {
      changed += step.replacement;
    } else {
      changed.push_back(c);
    }
  }
  piece.text = changed;
  emit(piece);
}

}  // namespace ebb::text::bpe
