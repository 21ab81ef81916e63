#include "model/weight_layout.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace ebb::model {

const StoredRun& BlockLayout::run_of(std::int64_t first) const {
  const auto behind = std::ranges::upper_bound(runs_, first, {}, &StoredRun::first);
  if (behind != runs_.begin()) {
    const StoredRun& run = *std::prev(behind);
    if (first < run.first + run.count) return run;
  }
  throw std::out_of_range(fmt::format("no parameter has element {} of this block", first));
}

Bytes BlockLayout::offset_of(std::int64_t element) const {
  const StoredRun& run = run_of(element);
  return run.offset + kernels::grain_of(run.type).size_of(element - run.first);
}

WeightLayout::WeightLayout(const Parameters& parameters,
                           FunctionRef<kernels::WeightType(int parameter)> type_of) {
  for (const ParameterBlock& from : parameters.blocks) {
    List<int> order;
    for (const int p : from.parameters) order.push_back(p);
    std::ranges::sort(order, {}, [&](int p) { return parameters.all[p].first; });
    BlockLayout& block = blocks_.emplace_back();
    PlaneStack stack;
    for (const int p : order) {
      const Parameter& parameter = parameters.all[p];
      const kernels::WeightType type = type_of(p);
      const Bytes bytes = kernels::grain_of(type).size_of(parameter.count());
      const Bytes offset = stack.add(bytes);
      StoredRun* const before = block.runs_.empty() ? nullptr : &block.runs_.back();
      // Rows that follow each other are one matrix: products with q, k and v are one then.
      if (before != nullptr && before->type == type &&
          before->first + before->count == parameter.first &&
          before->offset + kernels::grain_of(type).size_of(before->count) == offset) {
        before->count += parameter.count();
      } else {
        block.runs_.push_back({parameter.first, parameter.count(), offset, type});
      }
    }
    block.bytes_ = stack.end;
  }
}

}  // namespace ebb::model
