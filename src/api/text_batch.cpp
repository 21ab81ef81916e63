#include "api/text_batch.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace ebb::api {

TextBatch::TextBatch(engine::Generator& generator, PrefixReuse reuse)
    : generator_(generator),
      reuse_(reuse),
      caches_(generator),
      members_(to_size(generator.sequences())) {
  // Sequences change hands only while no run of theirs is queued.
  generator_.set_chooser([this](int sequence, std::span<const float> logits) {
    return members_[to_size(sequence)]->text->choose(logits);
  });
}

// Lanes may still be choosing tokens for texts of this batch.
TextBatch::~TextBatch() {
  try {
    generator_.abandon();
  } catch (...) {  // NOLINT: whoever waits for a text was told
  }
}

void TextBatch::begin(std::unique_ptr<WrittenText> text, Ended ended) {
  waiting_.push_back({.text = std::move(text), .ended = std::move(ended)});
}

bool TextBatch::advance() {
  try {
    advance_all();
  } catch (...) {
    // What runs, and what they have left in the caches, nobody knows.
    try {
      generator_.abandon();
    } catch (...) {  // NOLINT: the first failure is the one to be told
    }
    for (auto& member : members_) member.reset();
    waiting_.clear();
    runs_.clear();
    prompting_ = nullptr;
    caches_.forget();
    throw;
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, {}));
  return !waiting_.empty() || any_under_way();
}

bool TextBatch::any_under_way() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member != nullptr; });
}

void TextBatch::advance_all() {
  end_cancelled();
  if (prompting_ == nullptr && !waiting_.empty() && caches_.any_free()) begin_prompt();
  bool queued = queue_slice();
  queued = queue_tokens() || queued;
  // All but the run that was queued last, which computes while this thread goes on.
  queued ? generator_.wait_for_others() : generator_.drain();
  while (runs_.size() > (queued ? 1u : 0u)) {
    take_in(runs_.front());
    runs_.pop_front();
  }
  const bool any_wanted = !waiting_.empty() || std::ranges::any_of(members_, [](const auto& m) {
    return m != nullptr && !m->text->ended();
  });
  if (!any_wanted && !runs_.empty()) {
    // Nobody wants the tokens that are being computed.
    generator_.abandon();
    for (Member* member : runs_.front()) {
      member->in_flight = 0;
      generator_.keep(generator_.length(member->sequence) - 1, member->sequence);
    }
    runs_.clear();
  }
  release_ended();
}

// Texts that wait, and prompts: those behind them hear of it when their next token is there.
void TextBatch::end_cancelled() {
  // Who is told may let others begin.
  for (std::size_t i = 0; i < waiting_.size();) {
    if (!waiting_[i].text->stop_requested()) {
      ++i;
      continue;
    }
    Member member = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    cancel(member);
  }
  if (prompting_ != nullptr && prompting_->text->stop_requested()) {
    Member& member = *std::exchange(prompting_, nullptr);
    cancel(member);
    release_ended();
  }
}

void TextBatch::cancel(Member& member) {
  try {
    member.text->cancel();
  } catch (...) {
    return note(std::current_exception());
  }
  tell(member);
}

void TextBatch::begin_prompt() {
  auto member = std::make_unique<Member>(std::move(waiting_.front()));
  waiting_.pop_front();
  const auto [sequence, kept] = caches_.begin(member->text->request().ids, reuse_);
  member->sequence = sequence;
  member->computed = kept;
  member->text->begin(kept);
  prompting_ = member.get();
  members_[to_size(sequence)] = std::move(member);
}

bool TextBatch::queue_slice() {
  if (prompting_ == nullptr) return false;
  Member& member = *prompting_;
  const std::vector<std::int32_t>& prompt = member.text->request().ids;
  const auto slice = caches_.next_slice(member.sequence, prompt);
  member.computed += std::ssize(slice);
  const bool last = member.computed == std::ssize(prompt);
  generator_.queue(slice, member.sequence, last);
  runs_.emplace_back();
  if (!last) return true;
  runs_.back().push_back(&member);
  member.text->note_queued();
  ++member.in_flight;
  prompting_ = nullptr;
  return true;
}

bool TextBatch::queue_tokens() {
  Run run;
  std::vector<int> sequences;
  for (const auto& member : members_) {
    // Of a prompt whose last slice was queued the token follows at once.
    if (member == nullptr || member.get() == prompting_ || member->computed == 0) continue;
    if (member->in_flight > 1 || !member->text->wants_token()) continue;
    run.push_back(member.get());
    sequences.push_back(member->sequence);
  }
  if (run.empty()) return false;
  generator_.queue_chosen(sequences);
  for (Member* member : run) {
    member->text->note_queued();
    ++member->in_flight;
  }
  runs_.push_back(std::move(run));
  return true;
}

void TextBatch::take_in(const Run& run) {
  for (Member* member : run) {
    --member->in_flight;
    const bool ended = member->text->ended();
    try {
      member->text->take_in();
    } catch (...) {
      note(std::current_exception());
      continue;
    }
    if (!ended && member->text->ended()) tell(*member);
  }
}

void TextBatch::tell(Member& member) {
  try {
    if (member.ended) member.ended(*member.text);
  } catch (...) {
    note(std::current_exception());
  }
}

void TextBatch::note(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
}

// Of a prompt that was given up, the slices that were queued are there by the time that anything
// reads them.
void TextBatch::release_ended() {
  for (auto& member : members_) {
    if (member == nullptr || !member->text->ended() || member->in_flight > 0) continue;
    caches_.release(member->sequence, member->text->tokens());
    member.reset();
  }
}

}  // namespace ebb::api
