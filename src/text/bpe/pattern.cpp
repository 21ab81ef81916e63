#include "text/bpe/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "text/bpe/pattern_dialect.h"

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

// Backtracking over a run of spaces takes a step or two a byte and alternative; explosion takes
// them in powers.
constexpr std::size_t kLeastSteps = 10'000;
constexpr std::size_t kStepsPerByte = 64;
constexpr std::uint32_t kHeapKilobytes = 64 * 1024;
constexpr std::size_t kPatternBytes = 64 * 1024;
constexpr std::size_t kStackBytes = 1024 * 1024;

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
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

MatchScratch::~MatchScratch() = default;

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Release<pcre2_code_free>> code;
  bool jit = false;  // a machine that forbids writable code has none
};

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Pattern(const JsonPart& part) : where_(part.place()) {
  if (part.json().is_object() && part.has("Regex")) {
    compile(to_pcre2(part.at("Regex").text(), where_));
    return;
  }
  literal_ = part.at("String").text();
  if (literal_.empty()) part.refuse("an empty string to look for");
}

Pattern::Pattern(std::string_view regex, const std::string& where) : where_(where) {
  compile(to_pcre2(regex, where));
}

Pattern Pattern::of_pcre2(const std::string& regex) {
  Pattern pattern;
  pattern.where_ = "a built-in pattern";
  pattern.compile(regex);
  return pattern;
}

Pattern Pattern::of_literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

void Pattern::compile(const std::string& regex) {
  const std::unique_ptr<pcre2_compile_context, Release<pcre2_compile_context_free>> context(
      required(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kPatternBytes);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_ = std::make_unique<Compiled>();
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                                      context.get()));
  if (!compiled_->code) {
    throw FormatError(fmt::format("{}: the pattern {} is not one that PCRE2 can use: {}", where_,
                                  in_quotes(regex), message(error)));
  }
  std::uint32_t may_be_empty = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) {
    throw FormatError(
        fmt::format("{}: the pattern {} may match nothing at all, which is not supported", where_,
                    in_quotes(regex)));
  }
  compiled_->jit = pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

bool Pattern::next(std::string_view text, std::size_t from, MatchScratch& scratch,
                   Span& match) const {
  if (!compiled_) {
    match.begin = text.find(literal_, from);
    match.end = match.begin + literal_.size();
    return match.begin != std::string_view::npos;
  }
  MatchScratch::State& state = *scratch.state_;
  const std::size_t steps = kLeastSteps + kStepsPerByte * text.size();
  pcre2_set_match_limit(state.context.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(
                            steps, std::numeric_limits<std::uint32_t>::max())));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = compiled_->jit
                        ? pcre2_jit_match(compiled_->code.get(), subject, text.size(), from, 0,
                                          state.data.get(), state.context.get())
                        : pcre2_match(compiled_->code.get(), subject, text.size(), from,
                                      PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    throw FormatError(fmt::format("{}: the pattern gives up on a text of {} bytes at offset {}: {}",
                                  where_, text.size(), from, message(found)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data.get());
  match = {bounds[0], bounds[1]};
  return true;
}

}  // namespace ebb::text::bpe
