// One text while it is written. Its tokens are chosen on the lane that the logits come to, and
// become text on the caller's thread, which may be up to two tokens behind.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "api/opened_model.h"
#include "api/text_request.h"
#include "ebb/generate.h"
#include "engine/sampling.h"
#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace ebb::api {

// A text as it grows: tokens in, what may be shown out.
class GrowingText {
 public:
  GrowingText(const text::Tokenizer& tokenizer, const TextRequest& request);

  std::string feed(std::int32_t id);
  // A character that was cut off by the end of the text still comes, as a replacement.
  std::string finish();
  bool ended() const { return stops_.ended(); }

 private:
  const text::Tokenizer& tokenizer_;
  bool show_special_;
  bool begins_;
  text::Utf8Stream characters_;
  text::StopStrings stops_;
};

class WrittenText {
 public:
  // The request must have passed check_request(), which says how many `tokens` it may have. Refers
  // to the model. All memory that choosing takes is taken by begin().
  WrittenText(const OpenedModel& model, TextRequest request, TextTokens tokens,
              engine::GenerationSettings settings, TextSink sink, std::stop_token stop);

  // On any thread, one call at a time: the next token, of logits that belong behind the tokens so
  // far. What fails is told by take_in().
  std::int32_t choose(std::span<const float> logits) noexcept;

  // All else is the caller's thread's. The prompt begins to be computed, some of it from the cache.
  void begin(std::int64_t reused);
  bool begun() const { return sampler_.has_value(); }
  // Whether another token is wanted, if no token so far ends the text.
  bool wants_token() const { return !ended_ && queued_ < tokens_.most; }
  void note_queued() { ++queued_; }
  // The oldest token that was chosen and not taken in becomes text; choose() must have returned.
  // Nothing happens where the text has ended. Throws what the sink throws, and what choosing a
  // token threw: then the text has ended, and its summary is worth nothing.
  void take_in();
  // As the sink or a stop token does.
  void cancel();
  bool stop_requested() const { return stop_.stop_requested(); }
  bool ended() const { return ended_; }

  const TextRequest& request() const { return request_; }
  const engine::GenerationSettings& settings() const { return settings_; }
  // Once the text has ended: all but the device's bytes, the plan and json.
  GenerateSummary& summary() { return summary_; }
  // Prompt and all tokens that were chosen; while nobody chooses one.
  std::vector<std::int32_t> tokens() const { return sequence_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Chosen {
    std::int32_t id = 0;
    Clock::time_point time{};
    TokenLogProbabilities log_probabilities{};
    std::exception_ptr failure{};
  };

  void show(const std::string& piece);
  void end();

  const OpenedModel& model_;
  TextRequest request_;
  TextTokens tokens_;
  engine::GenerationSettings settings_;
  TextSink sink_;
  std::stop_token stop_;
  GenerateSummary summary_;

  // Of choose(), but for the ring's entries that the caller's thread has not taken in yet: two
  // tokens at most.
  std::optional<engine::Sampler> sampler_;
  std::vector<engine::LogProb> likeliest_;
  std::vector<std::int32_t> sequence_;
  std::int64_t chosen_ = 0;
  std::array<Chosen, 2> ring_{};

  GrowingText text_;
  std::int64_t queued_ = 0, taken_ = 0;
  bool wanted_ = true;  // becomes false for good when the sink or the stop token says so
  bool ended_ = false;
  Clock::time_point start_{}, first_{};
};

}  // namespace ebb::api
