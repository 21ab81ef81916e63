#include "text/data/validation.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::text {

ValidationBatches::ValidationBatches(const DataSet& data, BatchShape shape, Packing packing,
                                     std::optional<double> held_out_share, std::int64_t batches)
    : data_(data), shape_(shape), packing_(packing), share_(held_out_share), batches_(batches) {
  if (!file_order(data_, share_)()) {
    throw ConfigError(fmt::format(
        "holding out a share of {} of {} items leaves none to validate on; hold out more, or give "
        "files of their own with --eval-data",
        share_.value_or(0), data_.items()));
  }
  rewind();
}

std::optional<Batch> ValidationBatches::next() {
  if (made_ == batches_) return std::nullopt;
  ++made_;
  return maker_->next();
}

void ValidationBatches::rewind() {
  made_ = 0;
  left_out_ = {};
  const auto read = [this, order = file_order(data_, share_)]() mutable {
    std::optional<VisitedItem> item;
    if (const std::optional<Visit> visit = order()) {
      item = {visit->at, data_.read(visit->item)};
      const std::string& problem = item->item.problem;
      if (!problem.empty()) left_out_.add({.bad_items = 1, .first_problem = problem});
    }
    return item;
  };
  maker_.emplace(shape_, packing_, data_.encoding().tokenizer->end_of_text(), DataPosition{}, read);
}

}  // namespace ebb::text
