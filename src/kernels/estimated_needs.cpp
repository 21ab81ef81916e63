#include "kernels/estimated_needs.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_model_library.h"

namespace ebb::kernels {
namespace {

// What cuda/ asks for: a workspace for all products; for the backward of attention a bf16 for each
// pair of positions of as many heads as fit into a bound, and fp32 sums of the queries' gradients;
// of long sequences tiles of one key head's that are as large as the bound, and its sums.
class AbsentGpu final : public WorkspaceNeeds {
 public:
  Bytes matmul_scratch(View, ConstView, ConstView, const MatmulOptions&) const override {
    return 32 * kMiB + kAlignment;
  }
  Bytes linear_scratch(const Linear&) const override { return 32 * kMiB + kAlignment; }
  Bytes attention_scratch(DType type, const AttentionShape& s, bool backward) const override {
    if (!backward) return 0;
    const Bytes sums = s.batch * s.heads * s.queries * 4;
    if (type != DType::bf16) return sums + kAlignment;
    constexpr Bytes most_pairs = kGiB;
    const Bytes head_pairs = 2 * s.queries * s.keys;
    const std::int64_t group = s.heads / s.kv_heads;
    if (s.window == 0 && group * head_pairs > most_pairs) {
      return most_pairs + 4 * group * s.queries * s.head_dim + sums + kAlignment;
    }
    const std::int64_t heads =
        std::clamp<std::int64_t>(most_pairs / std::max<Bytes>(1, head_pairs), 1, s.batch * s.heads);
    return heads * (head_pairs + 4 * s.queries * s.head_dim) + sums + kAlignment;
  }
  Bytes library_bytes() const override { return 0; }

 private:
  static constexpr Bytes kAlignment = 256;
};

// This machine's library, on as many cores.
class AbsentCpu final : public WorkspaceNeeds {
 public:
  explicit AbsentCpu(int cores) : cores_(cores) {}

  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const MatmulOptions& options) const override {
    return cores_ * library_.matmul_scratch(c, a, b, options);
  }
  Bytes linear_scratch(const Linear& linear) const override {
    return cpu_linear_scratch(linear, cores_);
  }
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override {
    return cores_ * library_.attention_scratch(type, shape, backward);
  }
  Bytes library_bytes() const override { return cores_ * library_.library_bytes(); }

 private:
  int cores_;
  ThreadPool pool_{1};
  CpuModelLibrary library_{pool_};
};

}  // namespace

std::unique_ptr<WorkspaceNeeds> estimate_needs(std::string_view device, int cores) {
  if (device == "cuda") return std::make_unique<AbsentGpu>();
  return std::make_unique<AbsentCpu>(cores);
}

}  // namespace ebb::kernels
