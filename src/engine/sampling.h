// The next token from logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ebb/units.h"

namespace ebb::engine {

// In the order in which they apply, which is that of transformers: the penalty, the temperature,
// then the filters, each over what the one before it left.
struct Sampling {
  // Logits of tokens that the sequence has already, prompt included, are divided by it where they
  // are positive and multiplied where they are negative, once a token. 1: nothing is done.
  double repetition_penalty = 1.0;
  std::int64_t repetition_window = 0;  // only the sequence's last tokens count; 0: all of them
  double temperature = 1.0;            // 0: the likeliest token (the first of equals)
  std::int64_t top_k = 0;              // only the k likeliest; 0: all
  double top_p = 1.0;                  // only the likeliest that together have this probability
  double min_p = 0.0;  // only those with this share of the likeliest one's probability
  std::uint64_t seed = 0;
};

// Throws ConfigError that names the flag.
void validate(const Sampling&);

// A token and the logarithm of its probability.
struct LogProb {
  std::int32_t id = 0;
  double value = 0;
};

// Chooses tokens of one vocabulary. Has all memory that it needs from the start, about eight bytes
// a token of the vocabulary: nothing is allocated per draw, and nothing of the whole vocabulary is
// sorted. For one thread.
class Sampler {
 public:
  // The sampling must be valid.
  Sampler(const Sampling& sampling, std::size_t vocabulary);

  // `sequence` has all tokens so far, for the penalty. `position` numbers the draw: equal seeds,
  // positions, sequences and logits give equal tokens. Throws NumericsError for
  // logits that are not finite.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> sequence,
                      std::int64_t position);

  // Of the model itself: before penalty, temperature and filters. `likeliest` is filled with the
  // first tokens of the vocabulary by falling probability (equals by id), as many as it has room
  // for. Returns the logarithm of the sum of all exponentials, which a token's logit less gives its
  // log-probability.
  double log_probs(std::span<const float> logits, std::span<LogProb> likeliest);

  // Bytes of one for a vocabulary.
  static Bytes memory_bytes(std::int64_t vocabulary);

 private:
  // The head of all tokens by falling logit, equals by id: those above `logit`, and of those that
  // have it the ones up to `last`.
  struct Head {
    float logit;
    std::int32_t last;

    bool has(float x, std::size_t id) const {
      return x > logit || (x == logit && std::cmp_less_equal(id, last));
    }
  };

  std::span<const float> penalized(std::span<const float> logits,
                                   std::span<const std::int32_t> sequence);
  void find_maxima(std::span<const float> logits);
  double weigh(std::span<const float> logits, float scale);
  std::int32_t first_likeliest(std::span<const float> logits) const;
  void select(std::span<const float> logits, std::size_t count);
  void collect(std::span<const float> logits, const Head& head);
  void sort_candidates(std::span<const float> logits);
  double weigh_candidates(std::span<const float> logits, float scale);
  std::optional<Head> try_head(std::span<const float> logits, double reached, double wanted);
  Head head_with_weight(std::span<const float> logits, double wanted, double scale);
  Head head_of_candidates(std::span<const float> logits, double share, float scale);
  std::int32_t draw_from_all(std::span<const float> logits, double uniform, double total);
  std::int32_t draw_from(std::span<const float> logits, const Head& head, double uniform,
                         float scale);

  Sampling sampling_;
  std::vector<float> penalized_;  // empty without a penalty
  float largest_ = 0;
  float smallest_ = 0;
  // Of blocks of tokens (see the source): their largest logit, and the sum of their weights.
  std::vector<float> maxima_;
  std::vector<float> sums_;
  std::vector<float> ordered_maxima_;
  std::vector<float> weights_;  // e^((logit - largest) * scale)
  std::vector<std::int32_t> candidates_;
  std::vector<double> bins_;
};

}  // namespace ebb::engine
