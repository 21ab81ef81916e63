// How items are laid into the rows of batches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "text/data/batch.h"
#include "text/data/data_set.h"
#include "text/data/order.h"

namespace ebb::text {

enum class Packing {
  stream,  // one item behind the other, over the borders of rows
  fit,     // as many whole items as fit into each row, in order
  none,    // one item a row
};

std::string_view name_of(Packing packing);

// As given, or else stream for texts and tokens and none for examples with prompts. Throws
// ConfigError for passages and windows that should not run on: they are pieces of something longer,
// so most of each would be cut off.
Packing choose_packing(const DataSet& data, std::optional<Packing> given);

struct VisitedItem {
  DataPosition at;
  Item item;
  LeftOut left_out = {};  // bad items that came before it
};

// Lays items into batches. For one thread.
class BatchMaker {
 public:
  using Source = std::function<std::optional<VisitedItem>()>;

  // `start.token` tokens of the first item are left out. Rows that are not full end with `padding`
  // as tokens. Throws ConfigError for an empty or a huge shape.
  BatchMaker(BatchShape shape, Packing packing, std::int32_t padding, DataPosition start,
             Source source);

  // Nothing where the source has ended. The last batch may have rows that are padding alone. Items
  // with a problem are passed over and counted, by the batch that goes on behind them. Throws
  // FormatError where a whole epoch is made of such items.
  std::optional<Batch> next();

 private:
  // Goes on to the next token; false at the end of the source.
  bool load(LeftOut& left_out);
  std::optional<VisitedItem> take();
  std::int32_t target_behind_item();
  // Tokens placed in the row.
  std::int64_t fill_stream(Batch& batch, std::int64_t row);
  std::int64_t fill_examples(Batch& batch, std::int64_t row);
  void place(Batch& batch, std::int64_t at, std::int64_t count, std::int32_t last_target) const;
  DataPosition position() const;

  BatchShape shape_;
  Packing packing_;
  std::int32_t padding_;
  DataPosition start_;
  Source source_;
  std::optional<VisitedItem> current_;
  std::int64_t offset_ = 0;               // of current_: tokens already placed
  std::optional<VisitedItem> following_;  // looked at for a target
};

}  // namespace ebb::text
