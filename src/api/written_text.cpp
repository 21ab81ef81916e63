#include "api/written_text.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace ebb::api {
namespace {

double seconds_between(std::chrono::steady_clock::time_point a,
                       std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

TokenLogProbabilities log_probabilities(engine::Sampler& sampler, std::span<const float> logits,
                                        std::int32_t chosen,
                                        std::vector<engine::LogProb>& likeliest) {
  const double sum = sampler.log_probs(logits, likeliest);
  TokenLogProbabilities token{
      .chosen = {chosen, static_cast<double>(logits[to_size(chosen)]) - sum}, .likeliest = {}};
  for (const engine::LogProb& other : likeliest) token.likeliest.push_back({other.id, other.value});
  return token;
}

}  // namespace

GrowingText::GrowingText(const text::Tokenizer& tokenizer, const TextRequest& request)
    : tokenizer_(tokenizer),
      show_special_(request.sampling.show_special),
      begins_(request.answers),
      stops_(request.sampling.stop) {}

std::string GrowingText::feed(std::int32_t id) {
  // Models have a few ids more than their tokenizers, so that sizes are round.
  if (id >= tokenizer_.vocabulary()) return {};
  if (!show_special_ && tokenizer_.is_special(id)) return {};
  // An answer begins a text, everything else continues one.
  const bool begins = std::exchange(begins_, false);
  return stops_.feed(
      characters_.feed(begins ? tokenizer_.decode({&id, 1}) : tokenizer_.decode_next({&id, 1})));
}

std::string GrowingText::finish() {
  std::string rest = stops_.feed(characters_.finish());
  return rest + stops_.finish();
}

WrittenText::WrittenText(const OpenedModel& model, TextRequest request, TextTokens tokens,
                         engine::GenerationSettings settings, TextSink sink, std::stop_token stop)
    : model_(model),
      request_(std::move(request)),
      tokens_(std::move(tokens)),
      settings_(std::move(settings)),
      sink_(std::move(sink)),
      stop_(std::move(stop)),
      text_(model.tokenizer(), request_) {
  summary_.prompt_tokens = std::ssize(request_.ids);
  summary_.settings = settings_.explanation;
  summary_.warning = warning_of(model.source());
  summary_.note = tokens_.note;
}

void WrittenText::begin(std::int64_t reused) {
  const std::int64_t vocabulary = model_.source().config.vocabulary;
  sampler_.emplace(settings_.sampling, to_size(vocabulary));
  likeliest_.resize(to_size(std::min(request_.sampling.log_probs.value_or(0), vocabulary)));
  sequence_.reserve(request_.ids.size() + to_size(tokens_.most));
  sequence_ = request_.ids;
  summary_.reused_tokens = reused;
  start_ = Clock::now();
}

std::int32_t WrittenText::choose(std::span<const float> logits) noexcept {
  Chosen& next = ring_[to_size(chosen_++) % ring_.size()];
  next = {};
  try {
    next.time = Clock::now();
    // The draw is numbered by its position in the sequence, so that equal prompts and seeds give
    // equal texts whatever was generated before.
    next.id = sampler_->sample(logits, sequence_, std::ssize(sequence_));
    if (request_.sampling.log_probs) {
      next.log_probabilities = log_probabilities(*sampler_, logits, next.id, likeliest_);
    }
    sequence_.push_back(next.id);
  } catch (...) {
    next.failure = std::current_exception();
  }
  return next.id;
}

void WrittenText::take_in() {
  Chosen& next = ring_[to_size(taken_++) % ring_.size()];
  if (ended_) return;
  if (next.failure) {
    ended_ = true;
    std::rethrow_exception(next.failure);
  }
  if (summary_.tokens == 0) {
    first_ = next.time;
    summary_.prompt_seconds = seconds_between(start_, first_);
  }
  try {
    wanted_ = wanted_ && !stop_.stop_requested();
    if (!wanted_) return end();
    if (std::ranges::find(settings_.stops, next.id) != settings_.stops.end()) {
      summary_.ended_by = EndedBy::stop;
      return end();
    }
    if (request_.sampling.log_probs) {
      summary_.log_probabilities.push_back(std::move(next.log_probabilities));
    }
    summary_.ids.push_back(next.id);
    ++summary_.tokens;
    show(text_.feed(next.id));
    if (text_.ended()) summary_.ended_by = EndedBy::stop_text;
    if (!wanted_ || text_.ended() || summary_.tokens == tokens_.most) end();
  } catch (...) {
    ended_ = true;
    throw;
  }
}

void WrittenText::cancel() {
  wanted_ = false;
  if (!ended_) end();
}

void WrittenText::show(const std::string& piece) {
  summary_.text += piece;
  if (!piece.empty() && wanted_ && sink_) wanted_ = sink_(piece);
  wanted_ = wanted_ && !stop_.stop_requested();
}

void WrittenText::end() {
  ended_ = true;
  if (!wanted_) summary_.ended_by = EndedBy::caller;
  show(text_.finish());
  if (summary_.tokens == 0 && begun()) {
    summary_.prompt_seconds = seconds_between(start_, Clock::now());
  }
  const double seconds = summary_.tokens > 0 ? seconds_between(first_, Clock::now()) : 0;
  summary_.tokens_per_second = seconds > 0 ? static_cast<double>(summary_.tokens) / seconds : 0;
}

}  // namespace ebb::api
