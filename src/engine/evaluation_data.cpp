#include "engine/evaluation_data.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/to_size.h"
#include "engine/training_data.h"
#include "text/data/read_ahead.h"

namespace ebb::engine {

EvaluationData::EvaluationData(io::FileSystem& files, const TrainOptions& options,
                               const files::ModelTokenizer& tokenizer, std::int64_t vocabulary,
                               std::int64_t most_batches,
                               const std::function<void(const std::string&)>& note)
    : data_(open_data(files, options.data, options, tokenizer, vocabulary, note)),
      shape_{.sequence = options.sequence, .rows = options.micro_batch},
      most_batches_(most_batches),
      batches_(data_, shape_, packing_of(data_, options), {}, most_batches),
      counts_bytes_(data_.find(text::Form::windows) == nullptr) {
  for (const text::SkippedFile& skipped : data_.skipped()) {
    note(fmt::format("Not evaluated on: {} ({})", skipped.path.string(), skipped.reason));
  }
  if (counts_bytes_) {
    bytes_of_token_.assign(to_size(data_.encoding().tokenizer->vocabulary()), -1);
  }
}

std::optional<text::Batch> EvaluationData::next() {
  std::optional<text::Batch> batch = batches_.next();
  if (!batch) {
    whole_ = made_ < most_batches_ || items_ >= data_.items();
    return batch;
  }
  ++made_;
  items_ = batch->position_after.epoch > 0 ? data_.items() : batch->position_after.item;
  cut_examples_ += batch->left_out.cut_examples;
  cut_tokens_ += batch->left_out.cut_tokens;
  if (counts_bytes_) count_bytes(*batch);
  return batch;
}

void EvaluationData::count_bytes(const text::Batch& batch) {
  const text::Tokenizer& tokenizer = *data_.encoding().tokenizer;
  for (const std::int32_t id : batch.targets) {
    if (id < 0 || id == tokenizer.end_of_text()) continue;
    std::int32_t& bytes = bytes_of_token_.at(to_size(id));
    if (bytes < 0) bytes = static_cast<std::int32_t>(tokenizer.decode_next({&id, 1}).size());
    target_bytes_ += bytes;
  }
}

text::LeftOut EvaluationData::left_out() const {
  text::LeftOut all = batches_.left_out();  // bad items behind the last batch, too
  all.cut_examples = cut_examples_;
  all.cut_tokens = cut_tokens_;
  return all;
}

double EvaluationData::share() const {
  const double of_items = static_cast<double>(items_) / static_cast<double>(data_.items());
  const double of_batches = static_cast<double>(made_) / static_cast<double>(most_batches_);
  return std::min(1.0, std::max(of_items, of_batches));
}

std::optional<Bytes> EvaluationData::target_bytes() const {
  return counts_bytes_ ? std::optional(target_bytes_) : std::nullopt;
}

Bytes EvaluationData::memory_bytes() const {
  return data_.memory_bytes() + text::reading_bytes(data_) +
         data_.encoding().tokenizer->encoding_bytes() +
         static_cast<Bytes>(bytes_of_token_.size() * sizeof(std::int32_t));
}

}  // namespace ebb::engine
