#include "kernels/counting_ops.h"

#include <algorithm>
#include <utility>

namespace ebb::kernels {
namespace {

std::int64_t shortest_side(const Product& p) {
  return std::min({p.c.rows, p.c.cols, p.options.transpose_a ? p.a.rows : p.a.cols});
}

std::int64_t shortest_side(const Linear& l) { return std::min({l.y.rows, l.y.cols, l.x.cols}); }

}  // namespace

CountingOps::Count CountingOps::take() { return std::exchange(count_, Count{}); }

void CountingOps::call(const OpCall& call, std::initializer_list<Address>,
                       FunctionRef<void(ModelOps&)>) {
  count_.flops += call.flops;
  count_.bytes += call.bytes;
  count_.scratch = std::max(count_.scratch, scratch_for(call));
  count_.calls.push_back({call.kind, call.flops, call.bytes,
                          call.product  ? shortest_side(*call.product)
                          : call.linear ? shortest_side(*call.linear)
                                        : 0});
}

Bytes CountingOps::scratch_for(const OpCall& call) const {
  if (const Product* const p = call.product) {
    return needs_.matmul_scratch(p->c, p->a, p->b, p->options);
  }
  if (call.linear != nullptr) return needs_.linear_scratch(*call.linear);
  if (call.attention == nullptr) return 0;
  return needs_.attention_scratch(call.type, *call.attention,
                                  call.kind == OpKind::attention_backward);
}

}  // namespace ebb::kernels
