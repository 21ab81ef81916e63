// Where the parameters of a block lie where each keeps the type that it has in a file: for
// generation, which computes with weights as they are stored. Training has all of them in one type
// and needs no layout: a parameter's place in elements says it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "base/list.h"
#include "ebb/units.h"
#include "kernels/weight_type.h"
#include "model/parameters.h"

namespace ebb::model {

// A run of elements of one type. Parameters that follow each other are one run where they are
// alike.
struct StoredRun {
  std::int64_t first = 0;  // element within the block
  std::int64_t count = 0;
  Bytes offset = 0;  // within the block's memory, a multiple of kPlaneAlignment
  kernels::WeightType type{};
  friend auto operator<=>(const StoredRun&, const StoredRun&) = default;
};

class BlockLayout {
 public:
  // Elements from `first` on: the run that holds them. Throws std::out_of_range where there is
  // none.
  const StoredRun& run_of(std::int64_t first) const;
  // Bytes from the block's start to an element, which begins a grain of its type.
  Bytes offset_of(std::int64_t element) const;
  Bytes bytes() const { return bytes_; }
  // In the order of their elements. Blocks with equal runs are alike.
  const List<StoredRun>& runs() const { return runs_; }

 private:
  friend class WeightLayout;
  List<StoredRun> runs_;
  Bytes bytes_ = 0;
};

class WeightLayout {
 public:
  // `type_of` is asked for every parameter, by its number. A vector's is a plain type.
  WeightLayout(const Parameters& parameters,
               FunctionRef<kernels::WeightType(int parameter)> type_of);

  const BlockLayout& operator[](std::int64_t block) const { return blocks_[block]; }

 private:
  List<BlockLayout> blocks_;
};

// A block's weights in memory, as the model's functions take them.
struct BlockWeights {
  const std::byte* data = nullptr;
  // Null: all are of the decoder's type, at their places.
  const BlockLayout* layout = nullptr;

  BlockWeights() = default;
  BlockWeights(const std::byte* at, const BlockLayout* by = nullptr)  // NOLINT: most have no layout
      : data(at), layout(by) {}
};

}  // namespace ebb::model
