// What a model is evaluated on: every item of the data once, in the order of the files, laid into
// batches as training lays those that it validates on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/train.h"
#include "files/model/tokenizer.h"
#include "text/data/data_set.h"
#include "text/data/validation.h"

namespace ebb::engine {

class EvaluationData {
 public:
  // Looks at all files of options.data. Of the options what says how data is read is used. Keeps
  // references to `files` and to the tokenizer. `note` is told what was left out, and how far it is
  // while that takes long. Makes at most so many batches.
  EvaluationData(io::FileSystem& files, const TrainOptions& options,
                 const files::ModelTokenizer& tokenizer, std::int64_t vocabulary,
                 std::int64_t most_batches, const std::function<void(const std::string&)>& note);

  // All have the same shape; the last one is filled up with padding. Nothing at the end.
  std::optional<text::Batch> next();

  // Whether all items were read; of batches that were made.
  bool whole() const { return whole_; }
  // How much of the work the batches so far were, of all that will be made.
  double share() const;
  text::LeftOut left_out() const;

  // Bytes of text of the targets that carry loss, in all batches so far; a token that ends a text
  // has none. Nothing where items are windows of tokens, whose text nobody knows.
  std::optional<Bytes> target_bytes() const;

  // Host memory that it takes, batches left out.
  Bytes memory_bytes() const;

 private:
  void count_bytes(const text::Batch& batch);

  text::DataSet data_;
  text::BatchShape shape_;
  std::int64_t most_batches_;
  text::ValidationBatches batches_;
  std::int64_t cut_examples_ = 0;
  std::int64_t cut_tokens_ = 0;
  std::int64_t made_ = 0;
  std::int64_t items_ = 0;  // that the batches so far have used up
  bool whole_ = false;
  bool counts_bytes_;
  std::vector<std::int32_t> bytes_of_token_;  // -1: not asked for yet
  Bytes target_bytes_ = 0;
};

}  // namespace ebb::engine
