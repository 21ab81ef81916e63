// The parts of a tokenizer that have a rule of their own: patterns, Unicode forms, merging.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <map>
#include <random>
#include <set>

#include "ebb/error.h"
#include "temporary_folder.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/merging.h"
#include "text/bpe/model.h"
#include "text/bpe/pattern.h"
#include "text/bpe/pattern_dialect.h"
#include "text/bpe/unicode_form.h"
#include "text/bpe/utf8.h"
#include "text/utf8_stream.h"

namespace ebb::text::bpe {
namespace {

TEST(PatternDialect, KeepsWhatIsReadTheSame) {
  for (const char* pattern :
       {R"('s| ?\p{L}+|\P{N}{1,3}?|[^\r\n\p{Lu}\p{M}]?+a*+(?!b)(?<=c)(?>d)(e)(?i:f)\.\-\[)",
        R"([!-\/:-~]+$|^x{2,}y{3})", "一-龥"}) {
    EXPECT_EQ(to_pcre2(pattern, "x"), pattern);
  }
}

TEST(PatternDialect, RewritesWhatIsReadDifferently) {
  EXPECT_EQ(to_pcre2(R"(\d\D\v\u00e9\x41\p{^L}\p{Han})", "x"),
            R"(\p{Nd}\P{Nd}\x0b\x{00e9}\x{41}\P{L}\p{sc:Han})");
  EXPECT_EQ(to_pcre2(R"([\S\d])", "x"), R"([\P{White_Space}\p{Nd}])");
  EXPECT_EQ(to_pcre2("[ab]+$", "x"), R"((?:\G|(?<![ab]))[ab]+$)");
}

TEST(PatternDialect, RefusesTheRestByName) {
  const std::map<std::string, std::string> refused = {
      {R"(\bx)", "'\\b'"},
      {R"(\h)", "'\\h'"},
      {R"((a)\1)", "'\\1'"},
      {R"([a[bc]])", "inside"},
      {R"([a&&b])", "intersection"},
      {R"([\W])", "'\\W'"},
      {R"([])", "begins"},
      {R"([a)", "without its end"},
      {R"((?m:a))", "'(?m'"},
      {R"((?i)a)", "'(?i'"},
      {R"(a{1,2}+)", "'+'"},
      {R"(a{,2})", "no count"},
      {R"(a))", "')'"},
      {R"(\p{Foo9})", "'Foo9'"},
      {R"(\pL)", "braces"},
      {R"((?i:\p{Lu}))", "'Lu'"},
      {"a\\", "lone"},
      {R"(\x{110000000})", "incomplete"},
      {R"((*UTF)a)", "'(*U'"},
      {R"(\u12)", "incomplete"},
      {R"(a{1000})", "1000 or more"},
  };
  for (const auto& [pattern, says] : refused) {
    const std::string message = error_of<FormatError>([&] { to_pcre2(pattern, "'file'"); });
    expect_says(message, "'file'");
    expect_says(message, pattern);
    expect_says(message, says);
  }
}

TEST(Pattern, SpacesAreUnicodesWhiteSpace) {
  const Pattern space(R"(\s)", "x");
  const Pattern other(R"(\S)", "x");
  MatchScratch scratch;
  TextRange match;
  for (char32_t c = 0; c < 0x11000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_character(c, text);
    ASSERT_EQ(Matches(space, text, scratch).next(0, match), is_space(c))
        << fmt::format("U+{:04X}", int(c));
    ASSERT_EQ(Matches(other, text, scratch).next(0, match), !is_space(c))
        << fmt::format("U+{:04X}", int(c));
  }
}

// The matches of all of the text, as long as there are any.
std::vector<std::string> all_matches(const Pattern& pattern, std::string_view text) {
  MatchScratch scratch;
  Matches matches(pattern, text, scratch);
  std::vector<std::string> found;
  TextRange match;
  for (std::size_t done = 0; done < text.size() && matches.next(done, match); done = match.end) {
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return found;
}

// Searches look through a window of the text first; what lies across its end is found as anywhere.
TEST(Pattern, FindsWhatIsLongerThanAnyWindow) {
  const Pattern words(R"(\p{L}+|\s+(?!\S)|\s+)", "x");
  for (const std::size_t size : {1, 2, 255, 509, 510, 511, 512, 513, 514, 1023, 1024, 5000}) {
    for (const std::string letter : {"a", "\u00e9", "\u4e00", "\U00020000"}) {
      std::string word;
      while (word.size() < size) word += letter;
      const std::string spaces(size, ' ');
      std::vector<std::string> expected = {word};
      if (size > 1) expected.push_back(spaces.substr(1));
      expected.insert(expected.end(), {" ", word, spaces});
      ASSERT_EQ(all_matches(words, word + spaces + word + spaces), expected) << size << letter;
    }
  }
  // Far from the last one, with nothing in between that could begin a match.
  const std::string far = std::string(3000, '.') + "a" + std::string(3000, '.');
  EXPECT_EQ(all_matches(words, far), std::vector<std::string>{"a"});
  const Pattern last(R"([.]+$)", "x");
  EXPECT_EQ(all_matches(last, far), std::vector<std::string>{far.substr(3001)});
  EXPECT_EQ(all_matches(last, "..a.\n..\n.a"), (std::vector<std::string>{".", ".."}));
  EXPECT_EQ(all_matches(Pattern(R"((?<=a)\.)", "x"), far), std::vector<std::string>{"."});
  EXPECT_EQ(all_matches(Pattern::of_literal("a."), far), std::vector<std::string>{"a."});
}

// Each of these matches takes a look at all that is left of the text, or a power of it.
TEST(Pattern, GivesUpWhereTimeWouldGrowFasterThanTheText) {
  // With the letters that the patterns wait for out of reach.
  const std::string text = std::string(60'000, 'x') + "\nyz";
  for (const char* regex :
       {"x+y|x", "x.*y|x", "(?=x*y)x|x", "x*x*x*y|x", "(?:x*y|x)*z|x", "(?:x+x+)+y|x", "x+?y|x"}) {
    const Pattern pattern(regex, "tokenizer.json.pre_tokenizer");
    try {
      all_matches(pattern, text);
      ADD_FAILURE() << regex;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("tokenizer.json.pre_tokenizer: the pattern '"),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("steps"), std::string::npos) << error.what();
    }
  }
}

TEST(Pattern, TakesFewStepsForEachByte) {
  const Pattern llama3(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
      "x");
  const Pattern last_spaces(R"(\s+$)", "x");
  for (const std::string part : {"a", " ", "\n", "1", ".", " a", "  \n", "\u00e9"}) {
    std::string text;
    while (text.size() < 300'000) text += part;
    text += "a";
    MatchScratch scratch;
    for (const Pattern* pattern : {&llama3, &last_spaces}) {
      Matches matches(*pattern, text, scratch);
      const std::size_t before = matches.steps_left();
      TextRange match;
      for (std::size_t done = 0; done < text.size() && matches.next(done, match);) done = match.end;
      EXPECT_LT(before - matches.steps_left(), 8 * text.size()) << part;
    }
  }
}

// Pairs that lie side by side where the factor is the golden ratio, as it once was for all files.
TEST(MergeTable, NoFileCanPutItsPairsInOnePlace) {
  constexpr std::size_t kPairs = 4096;
  MergeTable table(kPairs);
  std::size_t inserted = 0;
  for (std::int32_t left = 0; inserted < kPairs; ++left) {
    for (std::int32_t right = 0; right < 1000 && inserted < kPairs; ++right) {
      const auto key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
      if ((key ^ key >> 29) * 0x9e3779b97f4a7c15u >> 56 != 0) continue;
      table.insert(left, right, {static_cast<std::uint32_t>(inserted++), left});
    }
  }
  EXPECT_LT(table.longest_search(), 500u);
}

TEST(SpellingHash, IsAnotherForEachVocabulary) {
  const SpellingHash a, b, same = a;
  EXPECT_EQ(a("token"), same("token"));
  EXPECT_NE(a("token"), b("token"));
  std::set<std::size_t> hashes;
  for (const std::string text : {"", "a", "aa", "aaaaaaa", "aaaaaaaa"}) {
    hashes.insert(a(text));
  }
  hashes.insert(a(std::string(1, '\0')));
  hashes.insert(a(std::string(7, '\0')));
  hashes.insert(a(std::string(8, '\0')));
  EXPECT_EQ(hashes.size(), 8u);
}

TEST(Utf8, RepairsAsUtf8StreamDoes) {
  std::mt19937 random(1);
  const std::string bytes = "a\xc3\xa9\xe2\x96\x81\xf0\x9f\x98\x80\xed\xa0\x80\xff\xc0\xf4\x90";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    while (random() % 9 != 0) text += bytes[random() % bytes.size()];
    Utf8Stream stream;
    std::string expected = stream.feed(text);
    expected += stream.finish();
    std::string storage;
    ASSERT_EQ(as_utf8(text, storage), expected);
    ASSERT_EQ(valid_bytes(text) == text.size(), text == expected);
  }
}

TEST(ByteAlphabet, IsReversible) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(read_bytes(spell_bytes(all)), all);
  EXPECT_EQ(spell_bytes(" a\n"), "Ġa\u010a");
  EXPECT_EQ(read_bytes("a b"), std::nullopt);
  EXPECT_EQ(read_bytes("\u4e00"), std::nullopt);
}

constexpr UnicodeForm kForms[] = {UnicodeForm::nfc, UnicodeForm::nfd, UnicodeForm::nfkc,
                                  UnicodeForm::nfkd};

std::string reference(std::string_view text, UnicodeForm form) {
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  const bool composed = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  utf8proc_uint8_t* out = nullptr;
  const auto size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()), &out,
      utf8proc_option_t(UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                        (compatible ? UTF8PROC_COMPAT : 0)));
  std::string result(reinterpret_cast<char*>(out), std::size_t(size));
  free(out);
  return result;
}

TEST(UnicodeForm, InertCharactersAre) {
  // What stands second in a composition may join the character before it.
  std::set<char32_t> seconds;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_character(c, text);
    const std::string apart = reference(text, UnicodeForm::nfd);
    for (std::size_t at = character_bytes(apart[0]); at < apart.size();) {
      seconds.insert(next_character(apart, at));
    }
  }
  for (const UnicodeForm form : kForms) {
    for (char32_t c = 0; c < 0x110000; ++c) {
      if ((c >= 0xd800 && c < 0xe000) || !is_inert(c, form)) continue;
      std::string text;
      append_character(c, text);
      ASSERT_EQ(reference(text, form), text) << fmt::format("U+{:04X}", int(c));
      ASSERT_EQ(utf8proc_get_property(utf8proc_int32_t(c))->combining_class, 0);
      ASSERT_FALSE(seconds.contains(c)) << fmt::format("U+{:04X}", int(c));
    }
  }
}

TEST(UnicodeForm, AgreesWithTheLibraryThatKnowsTheTables) {
  std::mt19937 random(2);
  const std::u32string drawn =
      U"aeé\u0301\u0323\u0302\u1100\u1161\u11a8\uac00\u4e00か\u3099ﬁ\u00bd\u1ea5Ω\u0344";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    while (random() % 12 != 0) append_character(drawn[random() % drawn.size()], text);
    for (const UnicodeForm form : kForms) {
      std::string storage;
      ASSERT_EQ(normalize(text, form, storage), reference(text, form)) << text;
    }
  }
}

TEST(Merging, BothWaysGiveTheSame) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    // Four letters, and merges of whatever there is so far.
    MergeTable table(40);
    std::int32_t next = 4;
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
      const auto left = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<std::int32_t>(random() % static_cast<unsigned>(next));
      if (table.find(left, right).rank == Merge::kNone) table.insert(left, right, {rank, next++});
    }
    std::vector<std::int32_t> word(1 + random() % kFewTokens);
    for (std::int32_t& id : word) id = static_cast<std::int32_t>(random() % 4);
    std::vector<std::int32_t> few, many, copy = word;
    MergingScratch scratch;
    merge_few(table, copy, few);
    copy = word;
    merge_many(table, copy, scratch, many);
    ASSERT_EQ(few, many) << "round " << round;
  }
}

}  // namespace
}  // namespace ebb::text::bpe
