// The batches that a run is validated on: the same ones each time, in the order of the files.
#pragma once

#include <cstdint>
#include <optional>

#include "text/data/packing.h"

namespace ebb::text {

// For one thread, which also reads and tokenizes the items.
class ValidationBatches {
 public:
  // Keeps a reference to `data`. With a share, its items that are held out from training; without,
  // all of them. At most `batches` are made. Throws ConfigError where there is no item.
  ValidationBatches(const DataSet& data, BatchShape shape, Packing packing,
                    std::optional<double> held_out_share, std::int64_t batches);
  ValidationBatches(const ValidationBatches&) = delete;
  ValidationBatches& operator=(const ValidationBatches&) = delete;

  // All have the same shape; the last one is filled up with padding. Nothing at the end.
  std::optional<Batch> next();

  // The next batch is the first one again.
  void rewind();

  // Bad items that were passed over since then.
  const LeftOut& left_out() const { return left_out_; }

 private:
  const DataSet& data_;
  BatchShape shape_;
  Packing packing_;
  std::optional<double> share_;
  std::int64_t batches_;
  std::int64_t made_ = 0;
  LeftOut left_out_;
  std::optional<BatchMaker> maker_;
};

}  // namespace ebb::text
