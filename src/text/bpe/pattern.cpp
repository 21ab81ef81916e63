#include "text/bpe/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "text/bpe/pattern_dialect.h"
#include "text/bpe/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ebb::text::bpe {

namespace {

template <auto release>
struct Release {
  template <class T>
  void operator()(T* pointer) const {
    release(pointer);
  }
};

template <class T>
T* required(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

std::string message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// PCRE2 does not say what a search took, and its limit on steps counts neither the bytes that a
// repetition runs over nor the places where a match could have begun. So a search is first made
// where it cannot take long: over a window of the text and with a limit on steps that a tokenizer's
// pattern hardly ever meets. One that wants to see behind the window or take more steps is made
// again with a program that reports every step.
constexpr std::size_t kWindowBytes = 512;
constexpr std::uint32_t kQuickSteps = 64;

// Backtracking over a run of spaces takes a step or two a byte and alternative; explosion takes
// them in powers, and `x+y|x` in squares.
constexpr std::size_t kLeastSteps = 100'000;
constexpr std::size_t kStepsPerByte = 256;
constexpr std::size_t kBytesPerStep = 64;  // that a repetition runs over
constexpr std::uint32_t kHeapKilobytes = 64 * 1024;
constexpr std::size_t kPatternBytes = 64 * 1024;
constexpr std::size_t kStackBytes = 1024 * 1024;

// What the program that reports its steps may still take.
struct StepLimit {
  std::size_t left = 0;
  std::size_t place = 0;  // of the step before
};

int count_step(pcre2_callout_block* at, void* data) {
  auto& steps = *static_cast<StepLimit*>(data);
  const std::size_t place = at->current_position;
  const std::size_t moved = place > steps.place ? place - steps.place : steps.place - place;
  const std::size_t taken = 1 + moved / kBytesPerStep;
  steps.place = place;
  if (taken > steps.left) {
    steps.left = 0;
    return PCRE2_ERROR_CALLOUT;
  }
  steps.left -= taken;
  return 0;
}

}  // namespace

struct MatchScratch::State {
  std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>> data{
      required(pcre2_match_data_create(1, nullptr))};
  std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>> context{
      required(pcre2_match_context_create(nullptr))};
  std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(32 * 1024, kStackBytes, nullptr)};
};

MatchScratch::MatchScratch() : state_(std::make_unique<State>()) {
  pcre2_set_heap_limit(state_->context.get(), kHeapKilobytes);
  pcre2_set_match_limit(state_->context.get(), kQuickSteps);
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

MatchScratch::~MatchScratch() = default;

struct Pattern::Program {
  std::unique_ptr<pcre2_code, Release<pcre2_code_free>> code;
  bool jit = false;  // a machine that forbids writable code has none
};

struct Pattern::Regex {
  std::string shown;  // for errors
  Program quick;
  Program counted;  // reports every step
};

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Pattern(const JsonPart& part) : where_(part.place()) {
  if (part.json().is_object() && part.has("Regex")) {
    const std::string& regex = part.at("Regex").text();
    compile(regex, to_pcre2(regex, where_));
    return;
  }
  literal_ = part.at("String").text();
  if (literal_.empty()) part.refuse("an empty string to look for");
}

Pattern::Pattern(std::string_view regex, const std::string& where) : where_(where) {
  compile(regex, to_pcre2(regex, where));
}

Pattern Pattern::of_pcre2(const std::string& regex) {
  Pattern pattern;
  pattern.where_ = "a built-in pattern";
  pattern.compile(regex, regex);
  return pattern;
}

Pattern Pattern::of_literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

void Pattern::compile(std::string_view shown, const std::string& regex) {
  const std::unique_ptr<pcre2_compile_context, Release<pcre2_compile_context_free>> context(
      required(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kPatternBytes);
  const auto compiled = [&](std::uint32_t options, std::uint32_t modes) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    Program program;
    program.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | options, &error,
                                     &offset, context.get()));
    if (!program.code) {
      throw FormatError(fmt::format("{}: the pattern {} is not one that PCRE2 can use: {}", where_,
                                    in_quotes(regex), message(error)));
    }
    program.jit = pcre2_jit_compile(program.code.get(), modes) == 0;
    return program;
  };
  regex_ = std::make_unique<Regex>();
  regex_->shown = in_quotes(shown);
  regex_->quick = compiled(0, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  regex_->counted = compiled(PCRE2_AUTO_CALLOUT, PCRE2_JIT_COMPLETE);
  std::uint32_t may_be_empty = 0;
  pcre2_pattern_info(regex_->quick.code.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) {
    throw FormatError(
        fmt::format("{}: the pattern {} may match nothing at all, which is not supported", where_,
                    in_quotes(regex)));
  }
}

Matches::Matches(const Pattern& pattern, std::string_view text, MatchScratch& scratch)
    : pattern_(pattern),
      text_(text),
      state_(*scratch.state_),
      steps_left_(kLeastSteps + kStepsPerByte * text.size()) {}

// In the text up to `end`; where that is not all of it, whoever looks that far gets no answer.
int Matches::search(const Pattern::Program& program, std::size_t from, std::size_t end) const {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  const std::uint32_t options = end == text_.size() ? 0 : PCRE2_PARTIAL_HARD;
  if (program.jit) {
    return pcre2_jit_match(program.code.get(), subject, end, from, options, state_.data.get(),
                           state_.context.get());
  }
  return pcre2_match(program.code.get(), subject, end, from, options | PCRE2_NO_UTF_CHECK,
                     state_.data.get(), state_.context.get());
}

int Matches::search_counted(std::size_t from) {
  StepLimit steps{steps_left_, from};
  pcre2_set_callout(state_.context.get(), count_step, &steps);
  pcre2_set_match_limit(state_.context.get(), std::numeric_limits<std::uint32_t>::max());
  const int found = search(pattern_.regex_->counted, from, text_.size());
  pcre2_set_match_limit(state_.context.get(), kQuickSteps);
  steps_left_ = steps.left;
  return found;
}

void Matches::give_up(std::size_t from, int error) const {
  throw FormatError(fmt::format(
      "{}: the pattern {} gives up on a text of {} bytes at offset {}: {}; no tokenizer needs such "
      "a pattern, so get the file again from where the model was published, or split the text",
      pattern_.where_, pattern_.regex_->shown, text_.size(), from,
      error == PCRE2_ERROR_CALLOUT
          ? fmt::format("it takes more than {} steps and {} a byte", kLeastSteps, kStepsPerByte)
          : message(error)));
}

// Not string_view's search, which takes the product of both lengths where they nearly match.
bool Matches::next_literal(std::size_t from, TextRange& match) const {
  const std::string& literal = pattern_.literal_;
  const void* found =
      memmem(text_.data() + from, text_.size() - from, literal.data(), literal.size());
  if (found == nullptr) return false;
  match.begin = to_size(static_cast<const char*>(found) - text_.data());
  match.end = match.begin + literal.size();
  return true;
}

bool Matches::next(std::size_t from, TextRange& match) {
  const Pattern::Regex* regex = pattern_.regex_.get();
  if (regex == nullptr) return next_literal(from, match);
  int found = PCRE2_ERROR_NOMATCH;
  for (;;) {
    std::size_t end = std::min(text_.size(), from + kWindowBytes);
    while (end < text_.size() && !begins_character(text_[end])) ++end;
    found = search(regex->quick, from, end);
    if (found != PCRE2_ERROR_NOMATCH || end == text_.size()) break;
    from = end;
  }
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) found = search_counted(from);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) give_up(from, found);
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state_.data.get());
  match = {bounds[0], bounds[1]};
  return true;
}

}  // namespace ebb::text::bpe
