#include "plan/workload.h"

#include <algorithm>
#include <stdexcept>

namespace ebb::plan {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  narrow_flops += other.narrow_flops;
  attention_flops += other.attention_flops;
  attention_backward_flops += other.attention_backward_flops;
  pass_bytes += other.pass_bytes;
  bytes += other.bytes;
  calls += other.calls;
  read_bytes += other.read_bytes;
  return *this;
}

Cost& Cost::operator-=(const Cost& other) {
  flops -= other.flops;
  narrow_flops -= other.narrow_flops;
  attention_flops -= other.attention_flops;
  attention_backward_flops -= other.attention_backward_flops;
  pass_bytes -= other.pass_bytes;
  bytes -= other.bytes;
  calls -= other.calls;
  read_bytes -= other.read_bytes;
  return *this;
}

std::int64_t Workload::parameters() const {
  std::int64_t total = 0;
  for (const Block& block : blocks) total += block.parameters;
  return total;
}

Bytes Workload::report_bytes() const {
  std::int64_t sums = 0;
  for (const Block& block : blocks) {
    for (const TensorRange& tensor : block.tensors) {
      sums += (tensor.count + norm_block - 1) / norm_block;
    }
  }
  return Bytes{sizeof(double)} * (reported_losses() + sums);
}

List<int> Workload::all_of(BlockKind kind) const {
  List<int> found;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b].kind == kind) found.push_back(static_cast<int>(b));
  }
  return found;
}

Bytes Planes::bytes(std::int64_t count) const {
  const List<Range> all = ranges(count, 0, count);
  return all.empty() ? 0 : all.back().first + all.back().bytes;
}

List<Range> Planes::ranges(std::int64_t of, std::int64_t first, std::int64_t count) const {
  List<Range> found;
  PlaneStack stack;
  for (const Grain& plane : planes_) {
    if (first % plane.per != 0) throw std::logic_error("elements that begin within a grain");
    found.push_back({stack.add(plane.size_of(of)) + plane.size_of(first), plane.size_of(count)});
  }
  return found;
}

Bytes Workload::extra(Tier tier) const {
  Bytes total = 0;
  for (const Extra& extra : extras) total += extra.tier == tier ? extra.bytes : 0;
  return total;
}

Bytes Workload::sum_bytes() const {
  return micro_batches == 1 ? 0 : micro_batches == 2 ? gradient_bytes : 4;
}

Bytes Workload::sum_traffic(std::int64_t micro) const {
  if (micro == micro_batches - 1) {
    return micro == 0 ? gradient_bytes : 2 * gradient_bytes + sum_bytes();
  }
  return micro == 0   ? 0
         : micro == 1 ? 2 * gradient_bytes + sum_bytes()
                      : gradient_bytes + 2 * sum_bytes();
}

Workload shortened(Workload work, std::int64_t passes) {
  // Groups and rounds of ranks are not all alike.
  const bool whole = work.ranks.grouped();
  const std::int64_t left_out = whole ? 0 : std::max<std::int64_t>(0, work.micro_batches - passes);
  if (left_out == 0) return work;
  work.micro_batches -= left_out;
  work.passes_left_out += left_out;
  // Their tokens and targets, and their losses in the reports.
  work.extras.push_back(
      {Tier::host, "batches", left_out * (align_up(work.batch) + 16) + 2 * kAlignment});
  work.extras.push_back({Tier::device, "batches", align_up(8 * left_out)});
  return work;
}

}  // namespace ebb::plan
