// What the sequences of a generator have in their caches, and what of it a new text may keep.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/generator.h"
#include "engine/generator.h"

namespace ebb::api {

// Refers to the generator, whose sequences nothing else may begin. For one thread.
class SequenceCaches {
 public:
  explicit SequenceCaches(engine::Generator& generator);

  struct Begun {
    int sequence = 0;
    std::int64_t kept = 0;  // tokens of the prompt, fewer than it has
  };
  // Takes a free sequence for a prompt, which is not empty, but computes none of it: the one whose
  // cache has most of the prompt's beginning, or one that this beginning is copied to, from a
  // sequence that may be in use. There must be a free one.
  Begun begin(std::span<const std::int32_t> prompt, PrefixReuse reuse);
  bool any_free() const;

  // The prompt's next tokens, a slice at most, which are to be queued now.
  std::span<const std::int32_t> next_slice(int sequence, std::span<const std::int32_t> prompt);

  // The text has ended: the first of these tokens, as many as the generator has computed of them,
  // stay until another text takes the sequence.
  void release(int sequence, std::vector<std::int32_t> tokens);
  // After a failure nothing is known of any cache, and all sequences are free.
  void forget();

 private:
  struct Sequence {
    bool in_use = false;
    std::vector<std::int32_t> tokens{};  // of the prompt alone while it is in use
    // The beginning that was computed in whole slices, as every sequence computes it.
    std::int64_t sliced = 0;
  };

  std::int64_t usable(const Sequence& sequence, std::span<const std::int32_t> prompt,
                      PrefixReuse reuse) const;

  engine::Generator& generator_;
  std::int64_t slice_;  // tokens of a whole slice
  std::vector<Sequence> sequences_;
};

}  // namespace ebb::api
