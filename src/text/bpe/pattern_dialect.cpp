#include "text/bpe/pattern_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::text::bpe {

namespace {

// The members of a set. PCRE2's \s has U+180E too and its \w lacks marks and connectors; ranges are
// also faster than the property White_Space.
constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      switch (c) {
        case '\\': escape(false); break;
        case '[': set(); break;
        case '(': open(); break;
        case ')': close(); break;
        case '{': count(); break;
        default: out_.push_back(c); ++at_;
      }
    }
    begin_runs_once();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError(fmt::format("{}: the pattern {} has {} at offset {}, which is not supported",
                                  where_, in_quotes(pattern_), what, at_));
  }
  // A run and an end of line, such as `\s+$`, which real tokenizers have. Where that is not found
  // from the run's beginning it is not found from further in either, and looking there again would
  // take the run's length in its square.
  void begin_runs_once() {
    const std::size_t set_end = out_.find(']');
    if (!out_.starts_with('[') || set_end == std::string::npos) return;
    const std::string set = out_.substr(0, set_end + 1);
    if (out_ == set + "+$") out_ = fmt::format("(?:\\G|(?<!{})){}", set, out_);
  }

  bool follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  void put(std::string_view text, std::size_t read) {
    out_ += text;
    at_ += read;
  }

  void escape(bool in_set) {
    if (at_ + 1 >= pattern_.size()) refuse("a lone '\\'");
    const char c = pattern_[at_ + 1];
    const auto members = [&](std::string_view set, bool negated) {
      put(in_set ? std::string(set) : fmt::format("[{}{}]", negated ? "^" : "", set), 2);
    };
    switch (c) {
      case 's': return members(kSpace, false);
      case 'w': return members(kWord, false);
      case 'S': return in_set ? put(R"(\P{White_Space})", 2) : members(kSpace, true);
      case 'W':
        if (in_set) refuse("'\\W' in a set");
        return members(kWord, true);
      case 'd': return put(R"(\p{Nd})", 2);
      case 'D': return put(R"(\P{Nd})", 2);
      case 'v': return put(R"(\x0b)", 2);
      case 'p':
      case 'P': return property();
      case 'u': return hexadecimal(4, 4);
      case 'x':
        if (at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') return braced_hexadecimal();
        return hexadecimal(1, 2);
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e': return copy(2);
      default:
        if (!std::ispunct(static_cast<unsigned char>(c)) && c != ' ') {
          refuse(in_quotes(pattern_.substr(at_, 2)));
        }
        copy(2);
    }
  }

  void hexadecimal(std::size_t least, std::size_t most) {
    std::size_t digits = 0;
    while (digits < most && at_ + 2 + digits < pattern_.size() &&
           std::isxdigit(static_cast<unsigned char>(pattern_[at_ + 2 + digits]))) {
      ++digits;
    }
    if (digits < least) refuse("an incomplete '\\x' or '\\u'");
    put(fmt::format("\\x{{{}}}", pattern_.substr(at_ + 2, digits)), 2 + digits);
  }

  void braced_hexadecimal() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view digits = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool good = end != std::string_view::npos && !digits.empty() && digits.size() <= 6 &&
                      std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c); });
    if (!good) refuse("an incomplete '\\x{'");
    copy(end + 1 - at_);
  }

  void property() {
    const std::size_t end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == std::string_view::npos) {
      refuse("a property without braces");
    }
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    bool negated = pattern_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool category = std::ranges::find(kCategories, name) != kCategories.end();
    // With PCRE2 a bare script is the longer list of script extensions.
    const bool script = name.size() > 2 && std::ranges::all_of(name, [](unsigned char c) {
                          return std::isalpha(c) || c == '_';
                        });
    if (!category && !script) refuse("the property " + in_quotes(name));
    // Without regard to case PCRE2 takes these three as "a letter that has case".
    if (!caseless_.empty() && caseless_.back() && (name == "Lu" || name == "Ll" || name == "Lt")) {
      refuse(fmt::format("the property '{}' inside (?i:", name));
    }
    put(fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', category ? "" : "sc:", name),
        end + 1 - at_);
  }

  void set() {
    copy(1);
    if (follows("^")) copy(1);
    if (follows("]")) refuse("a set that begins with ']'");
    for (;;) {
      if (at_ >= pattern_.size()) refuse("a set without its end");
      if (follows("]")) return copy(1);
      if (follows("[")) refuse("a set inside a set");
      if (follows("&&")) refuse("an intersection of sets");
      if (follows("\\")) {
        escape(true);
      } else {
        copy(1);
      }
    }
  }

  void open() {
    constexpr std::array<std::string_view, 6> kGroups = {"(?:",  "(?=",  "(?!",
                                                         "(?<=", "(?<!", "(?>"};
    const bool outer = !caseless_.empty() && caseless_.back();
    if (follows("(?i:")) {
      caseless_.push_back(true);
      return copy(4);
    }
    caseless_.push_back(outer);
    for (const std::string_view group : kGroups) {
      if (follows(group)) return copy(group.size());
    }
    if (follows("(?") || follows("(*")) refuse(in_quotes(pattern_.substr(at_, 3)));
    copy(1);
  }

  void close() {
    if (caseless_.empty()) refuse("a ')' without its '('");
    caseless_.pop_back();
    copy(1);
  }

  // {n}, {n,} and {n,m}. A '+' behind them is a second repetition there and possessive here. The
  // first number is a run that no step of work is counted for.
  void count() {
    constexpr std::size_t kMostDigits = 3;
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t first = end;
      while (end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])))
        ++end;
      return end - first;
    };
    const std::size_t least = digits();
    if (least == 0) refuse("a '{' that is no count");
    if (least > kMostDigits) refuse("a count of 1000 or more");
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      digits();
    }
    if (end >= pattern_.size() || pattern_[end] != '}') refuse("a '{' that is no count");
    copy(end + 1 - at_);
    if (follows("+")) refuse("a '+' behind a count");
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::vector<bool> caseless_;  // of each group that is open
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& where) {
  return Translation(pattern, where).run();
}

}  // namespace ebb::text::bpe
