// Texts that are written beside each other by one generator: they begin when a sequence is free,
// join the others' runs with their first token, and leave between tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "api/sequence_caches.h"
#include "api/written_text.h"
#include "engine/generator.h"

namespace ebb::api {

// Refers to the generator, whose sequences nothing else may use. For one thread.
class TextBatch {
 public:
  using Ended = std::function<void(WrittenText&)>;

  TextBatch(engine::Generator& generator, PrefixReuse reuse);
  ~TextBatch();
  TextBatch(const TextBatch&) = delete;
  TextBatch& operator=(const TextBatch&) = delete;

  // Puts a text behind those that wait. `ended` is called by advance() when its summary is there;
  // never for a text that failed.
  void begin(std::unique_ptr<WrittenText> text, Ended ended);

  // Takes all texts further: a slice of one prompt, and a token of each text that is behind its
  // prompt. The next tokens are queued before the last ones become text. Returns whether there is
  // anything left to do. What a sink or `ended` throws, or what choosing a token threw, takes that
  // text alone out and comes to the caller. Any other failure takes all of them out.
  bool advance();

 private:
  struct Member {
    std::unique_ptr<WrittenText> text;
    Ended ended;
    int sequence = -1;
    std::int64_t computed = 0;  // tokens of the prompt that were queued or kept
    int in_flight = 0;          // runs that choose a token for it, and were not taken in
  };
  using Run = std::vector<Member*>;  // those that it chooses a token for

  void begin_prompt();
  bool queue_slice();
  bool queue_tokens();
  void take_in(const Run& run);
  void end_cancelled();
  void cancel(Member& member);
  void tell(Member& member);
  void note(std::exception_ptr failure);
  void release_ended();
  void advance_all();
  bool any_under_way() const;

  engine::Generator& generator_;
  PrefixReuse reuse_;
  SequenceCaches caches_;
  std::deque<Member> waiting_;
  std::vector<std::unique_ptr<Member>> members_;  // by sequence; null: it is free
  Member* prompting_ = nullptr;                   // whose prompt is being computed
  std::deque<Run> runs_;                          // queued, the oldest first
  std::exception_ptr failure_;                    // the first of a call
};

}  // namespace ebb::api
