// cuBLASLt is column-major: a row-major matrix is its transpose, with the stride as leading
// dimension. So c^T = op(b)^T op(a)^T is what is asked for: b's memory is the library's first
// operand, a's the second, transposes stay as they are, and the bias lies along c^T's rows, as the
// library wants it.
#include "kernels/cuda/model/matmul_plans.h"

#include <string>

#include "ebb/error.h"

namespace ebb::kernels {
namespace {

constexpr int kCandidates = 8;

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string("matmul: ") + what + ": cuBLASLt says " +
                    cublasLtGetStatusName(status) + " (" + cublasLtGetStatusString(status) + ")");
}

cudaDataType_t library_type(DType type) {
  switch (type) {
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    default: break;
  }
  throw Error("matmul: elements must be fp32 or bf16, found " + std::string(name_of(type)));
}

// Kernels care about steps up to 16 bytes. Finer classes would let the address of an object, which
// the layout chooses, choose the algorithm.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::uint32_t bytes = 16; bytes > 1; bytes /= 2) {
    if (address % bytes == 0) return bytes;
  }
  return 1;
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, name, &value, sizeof value), "an attribute");
}

template <class T>
void set(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t name,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(wish, name, &value, sizeof value), "a preference");
}

auto layout_of(ConstView view) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, library_type(view.type),
                                   static_cast<std::uint64_t>(view.cols),
                                   static_cast<std::uint64_t>(view.rows), view.stride),
        "a layout");
  return LtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>(layout);
}

const void* addend_or(const MatmulOptions& options, View c) {
  return options.addend != nullptr ? options.addend : c.data;
}

}  // namespace

MatmulPlans::MatmulPlans(Bytes workspace) : workspace_bytes_(workspace) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "starting the library");
  library_.reset(handle);
}

MatmulPlans::Plan MatmulPlans::make(View c, ConstView a, ConstView b,
                                    const MatmulOptions& options) const {
  Plan made;
  cublasLtMatmulDesc_t product = nullptr;
  // Accumulates in fp32; for fp32 operands this is plain fp32, not TF32.
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  made.product.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, options.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, options.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (options.bias != nullptr) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(c.type));
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, options.bias);
  }
  made.a = layout_of(a);
  made.b = layout_of(b);
  made.c = layout_of(c);

  cublasLtMatmulPreference_t wish = nullptr;
  check(cublasLtMatmulPreferenceCreate(&wish), "a preference");
  const LtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owned(wish);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_bytes_));
  // Parts of a sum that is split meet in fp32, never in bf16: a result is rounded once.
  set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(addend_or(options, c)));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(c.data));

  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library_.get(), product, made.b.get(), made.a.get(), made.c.get(), made.c.get(), wish,
      kCandidates, results, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return made;
  check(status, "the choice of an algorithm");
  for (int i = 0; i < count && !made.found; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (results[i].workspaceSize > static_cast<std::size_t>(workspace_bytes_)) continue;
    made.algorithm = results[i].algo;
    made.found = true;
  }
  return made;
}

const MatmulPlans::Plan& MatmulPlans::plan(View c, ConstView a, ConstView b,
                                           const MatmulOptions& options) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const Key key{c.rows,
                c.cols,
                a.rows,
                a.cols,
                a.stride,
                b.stride,
                c.stride,
                number(a.type),
                number(c.type),
                number(options.transpose_a),
                number(options.transpose_b),
                number(options.addend != nullptr),
                options.bias == nullptr ? 0 : number(alignment_of(options.bias)),
                number(alignment_of(a.data)),
                number(alignment_of(b.data)),
                number(alignment_of(c.data)),
                number(alignment_of(addend_or(options, c)))};
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, make(c, a, b, options)).first->second;
}

bool MatmulPlans::run(View c, ConstView a, ConstView b, const MatmulOptions& options,
                      std::byte* workspace, cudaStream_t stream) {
  const Plan& chosen = plan(c, a, b, options);
  if (!chosen.found) return false;
  if (options.bias != nullptr) {
    set(chosen.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, options.bias);
  }
  const float one = 1.0f, beta = options.addend != nullptr ? 1.0f : 0.0f;
  check(cublasLtMatmul(library_.get(), chosen.product.get(), &one, b.data, chosen.b.get(), a.data,
                       chosen.a.get(), &beta, addend_or(options, c), chosen.c.get(), c.data,
                       chosen.c.get(), &chosen.algorithm, workspace,
                       static_cast<std::size_t>(workspace_bytes_), stream),
        "a product");
  return true;
}

}  // namespace ebb::kernels
