// Attention by a library's fused kernels, for the shapes it can do. cudnn/ implements it with
// cuDNN, no_cudnn/ stands in where that is not built; the build takes one of them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "kernels/model_ops.h"

namespace ebb::kernels {

// bf16. Causal with or without a window, as many queries as keys; or every query sees every key.
// Strides are elements between rows.
struct FusedProblem {
  AttentionShape shape;
  bool backward = false;
  bool statistics = true;  // forward: whether log_sums are wanted
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  std::int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;  // backward
  bool causal = true;
};

// What a problem reads and writes; log_sums is [batch][heads][queries] without gaps.
struct FusedOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;        // written forward, read backward
  float* log_sums = nullptr;  // likewise
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // Bytes of workspace, or nothing where the library cannot do it. Plans are kept.
  virtual std::optional<Bytes> workspace(const FusedProblem& problem) = 0;
  // `workspace` has the bytes said above and lies on 256; operands lie on 16.
  virtual void run(const FusedProblem& problem, const FusedOperands& operands, std::byte* workspace,
                   cudaStream_t stream) = 0;
  // How many plans there are.
  virtual std::int64_t plans() const = 0;
};

// Null where none is built in.
std::unique_ptr<FusedAttention> create_fused_attention();
// The versions that decide its numbers, for the numerics key.
std::string fused_attention_version();

}  // namespace ebb::kernels
