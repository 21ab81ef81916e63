// What a run learns from: its data, tokenized and laid into batches as the flags say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "ebb/train.h"
#include "engine/model_tokenizer.h"
#include "text/data/data_set.h"
#include "text/data/prefetch.h"
#include "text/data/validation.h"

namespace ebb::engine {

// Throws ConfigError that names the flag, what was found and what to write.
void check_data_flags(const TrainOptions& options);

// How conversations are written for a model; empty where its tokenizer has no chat template. Keeps
// a reference to the tokenizer.
text::ChatRenderer chat_renderer(const ModelTokenizer& tokenizer);

class TrainingData {
 public:
  // Looks at all files. Keeps a reference to the tokenizer. `note` is told what was left out, and
  // how far it is while that takes long.
  TrainingData(const TrainOptions& options, const ModelTokenizer& tokenizer,
               std::int64_t vocabulary, int threads,
               const std::function<void(const std::string&)>& note);

  // The part of the numerics key that is the data's.
  Json key() const;

  // Host memory it takes, batches and the tokens that wait to become some left out.
  Bytes memory_bytes() const;

  // From `start` on. The object must outlive them.
  text::Prefetcher batches(text::DataPosition start) const;

  // What the run is validated on; nullptr where the flags name nothing. The same batches each time.
  std::unique_ptr<text::ValidationBatches> validation() const;

 private:
  const TrainOptions& options_;
  text::DataSet data_;
  text::BatchRules rules_;
  text::AheadBounds bounds_;
  std::optional<text::DataSet> evaluation_;
};

}  // namespace ebb::engine
