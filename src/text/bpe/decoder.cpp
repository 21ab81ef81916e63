#include "text/bpe/decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <variant>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/pattern.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

struct Replace {
  Pattern pattern;
  std::string with;
};
struct Metaspace {
  std::string replacement;
  bool strips = true;
};
// Up to `begin` such characters off the beginning and `end` off the end.
struct Strip {
  std::string content;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
struct ReadBytes {};  // byte_alphabet.h
struct ByteFallback {};
using Step = std::variant<Replace, Metaspace, Strip, ReadBytes, ByteFallback>;

// Steps that see tokens, and those behind a step that joins them all, which see the text.
struct Steps {
  std::vector<Step> tokens;
  std::vector<Strip> text;
  bool joins = false;  // without a decoder, tokens are joined with spaces
};

std::string one_character(const JsonPart& part) {
  const std::string& text = part.text();
  if (text.empty() || character_bytes(text[0]) != text.size())
    part.refuse("expected one character");
  return text;
}

Strip read_strip(const JsonPart& part) {
  constexpr std::int64_t kMost = 1'000'000;
  return {one_character(part.at("content")), part.at("start").number(0, kMost),
          part.at("stop").number(0, kMost)};
}

Metaspace read_metaspace(const JsonPart& part) {
  const std::string prefix =
      part.text_or("prepend_scheme", part.flag_or("add_prefix_space", true) ? "always" : "never");
  return {one_character(part.at("replacement")), prefix != "never"};
}

[[noreturn]] void refuse_joined(const JsonPart& part) {
  part.refuse(fmt::format(
      "the decoder {} behind one that joins all tokens is not supported, except a Strip of one "
      "character at the beginning",
      in_quotes(part.type())));
}

Steps read_steps(const JsonPart& tokenizer) {
  Steps steps;
  bool bytes = false;  // a token may be half a character now
  bool fused = false;
  for (const JsonPart& part : sequence_of(tokenizer, "decoder", "decoders")) {
    steps.joins = true;
    const std::string& type = part.type();
    if (fused) {
      if (type == "Fuse") continue;
      // Texts come token by token, so nothing may look further than at the first character.
      if (type != "Strip") refuse_joined(part);
      steps.text.push_back(read_strip(part));
      if (steps.text.size() > 1 || steps.text[0].begin > 1 || steps.text[0].end > 0) {
        refuse_joined(part);
      }
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "ByteLevel") {
      steps.tokens.emplace_back(ReadBytes{});
      fused = true;
    } else if (bytes) {
      part.refuse(
          fmt::format("the decoder {} right behind ByteFallback is not supported; put a "
                      "Fuse between them",
                      in_quotes(type)));
    } else if (type == "ByteFallback") {
      steps.tokens.emplace_back(ByteFallback{});
      bytes = true;
    } else if (type == "Replace") {
      steps.tokens.emplace_back(Replace{Pattern(part.at("pattern")), part.at("content").text()});
    } else if (type == "Metaspace") {
      steps.tokens.emplace_back(read_metaspace(part));
    } else if (type == "Strip") {
      steps.tokens.emplace_back(read_strip(part));
    } else {
      part.refuse(
          fmt::format("the decoder {} is not supported; ByteLevel, ByteFallback, Fuse, "
                      "Metaspace, Replace, Strip and Sequence are",
                      in_quotes(type)));
    }
  }
  return steps;
}

// Stops once there are more than `most` bytes, as far as a caller looks at them.
std::string replace_all(const Pattern& pattern, std::string_view text, std::string_view with,
                        std::size_t most, MatchScratch& scratch) {
  std::string out;
  std::size_t done = 0;
  TextRange match;
  Matches matches(pattern, text, scratch);
  while (done < text.size() && out.size() <= most && matches.next(done, match)) {
    out += text.substr(done, match.begin - done);
    out += with;
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

std::string_view stripped(const Strip& strip, std::string_view text) {
  for (std::int64_t i = 0; i < strip.begin && text.starts_with(strip.content); ++i) {
    text.remove_prefix(strip.content.size());
  }
  for (std::int64_t i = 0; i < strip.end && text.ends_with(strip.content); ++i) {
    text.remove_suffix(strip.content.size());
  }
  return text;
}

// "<0x41>".
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

// None where the text grows without measure: replacements of replacements could fill the memory.
std::optional<std::string> decode_token(const Steps& steps, std::string text, bool at_start,
                                        MatchScratch& scratch) {
  const std::size_t most = 64 * text.size() + 256;
  for (const Step& step : steps.tokens) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      if (replace->with.size() > most) return std::nullopt;
      text = replace_all(replace->pattern, text, replace->with, most, scratch);
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      // All of them, not only the first: so does the tokenizers library.
      text = replace_all(Pattern::of_literal(metaspace->replacement), text,
                         at_start && metaspace->strips ? "" : " ", most, scratch);
    } else if (const auto* strip = std::get_if<Strip>(&step)) {
      text = stripped(*strip, text);
    } else if (std::holds_alternative<ReadBytes>(step)) {
      if (auto bytes = read_bytes(text)) text = std::move(*bytes);
    } else if (const auto byte = fallback_byte(text)) {
      text.assign(1, *byte);
    }
    if (text.size() > most) return std::nullopt;
  }
  if (!steps.joins && !at_start) text.insert(0, " ");
  for (const Strip& strip : steps.text) {
    if (at_start) text = stripped(strip, text);
  }
  return text;
}

}  // namespace

void Decoder::Texts::push_back(std::string_view text) {
  bytes += text;
  ends.push_back(bytes.size());
}

std::string_view Decoder::Texts::operator[](std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(bytes).substr(begin, ends[i] - begin);
}

Decoder::Decoder(const JsonPart& tokenizer, const std::vector<std::string>& tokens) {
  const Steps steps = read_steps(tokenizer);
  MatchScratch scratch;
  for (const std::string& token : tokens) {
    for (const bool at_start : {false, true}) {
      const auto text =
          token.empty() ? std::string() : decode_token(steps, token, at_start, scratch);
      if (!text) {
        tokenizer.at("decoder").refuse(
            fmt::format("it makes far more of the token {} than it is long", in_quotes(token)));
      }
      (at_start ? at_start_ : anywhere_).push_back(*text);
    }
  }
}

void Decoder::decode(std::int32_t id, bool at_start, std::string& out) const {
  out += (at_start ? at_start_ : anywhere_)[to_size(id)];
}

}  // namespace ebb::text::bpe
