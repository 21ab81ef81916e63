// cuBLASLt is column-major: a row-major matrix is its transpose, with the stride as leading
// dimension. So c^T = op(b)^T op(a)^T is what is asked for: b's memory is the library's first
// operand, a's the second, transposes stay as they are, and the bias lies along c^T's rows, as the
// library wants it.
#include "kernels/cuda/model/matmul_plans.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "device/cuda/check.h"
#include "device/cuda/handle.h"
#include "ebb/error.h"

namespace ebb::kernels {
namespace {

constexpr int kCandidates = 16;

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

// Numbers apart by spaces, as many as there is room for; false where the text is anything else.
template <class Numbers>
bool read_numbers(const std::string& text, int base, Numbers& numbers) {
  const char *at = text.data(), *const end = at + text.size();
  for (auto& number : numbers) {
    if (&number != std::begin(numbers)) {
      if (at == end || *at != ' ') return false;
      ++at;
    }
    const auto [next, error] = std::from_chars(at, end, number, base);
    if (error != std::errc{}) return false;
    at = next;
  }
  return at == end;
}

}  // namespace

MatmulPlans::MatmulPlans(Bytes workspace) : workspace_bytes_(workspace) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "starting the library");
  library_.reset(handle);
}

MatmulPlans::Plan MatmulPlans::make(const Product& p) const {
  Plan made;
  cublasLtMatmulDesc_t product = nullptr;
  // Accumulates in fp32; for fp32 operands this is plain fp32, not TF32.
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  made.product.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, p.options.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, p.options.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.options.bias != nullptr) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(p.c.type));
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.options.bias);
  }
  made.a = layout_of(p.a);
  made.b = layout_of(p.b);
  made.c = layout_of(p.c);

  cublasLtMatmulPreference_t wish = nullptr;
  check(cublasLtMatmulPreferenceCreate(&wish), "a preference");
  const LtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owned(wish);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_bytes_));
  // Parts of a sum that is split meet in fp32, never in bf16: a result is rounded once.
  set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(addend_or(p.options, p.c)));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));

  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library_.get(), product, made.b.get(), made.a.get(), made.c.get(), made.c.get(), wish,
      kCandidates, results, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "the choice of an algorithm");
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (results[i].workspaceSize > static_cast<std::size_t>(workspace_bytes_)) continue;
    made.offered.push_back(results[i].algo);
  }
  made.found = !made.offered.empty();
  if (made.found) made.algorithm = made.offered.front();
  const auto before = choices_.find(key_of(p));
  if (made.found && before != choices_.end() && fits(made, before->second)) {
    made.algorithm = before->second;
    made.chosen = true;
  }
  return made;
}

bool MatmulPlans::fits(const Plan& plan, const Algorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(library_.get(), plan.product.get(), plan.b.get(), plan.a.get(),
                                 plan.c.get(), plan.c.get(), &algorithm,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(workspace_bytes_);
}

MatmulPlans::Key MatmulPlans::key_of(const Product& p) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  return {p.c.rows,
          p.c.cols,
          p.a.rows,
          p.a.cols,
          p.a.stride,
          p.b.stride,
          p.c.stride,
          number(p.a.type),
          number(p.c.type),
          number(p.options.transpose_a),
          number(p.options.transpose_b),
          number(p.options.addend != nullptr),
          p.options.bias == nullptr ? 0 : number(alignment_of(p.options.bias)),
          number(alignment_of(p.a.data)),
          number(alignment_of(p.b.data)),
          number(alignment_of(p.c.data)),
          number(alignment_of(addend_or(p.options, p.c)))};
}

MatmulPlans::Plan& MatmulPlans::plan(const Product& product) {
  const Key key = key_of(product);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, make(product)).first->second;
}

cublasStatus_t MatmulPlans::queue(const Plan& plan, const Algorithm& algorithm, const Product& p,
                                  std::byte* workspace, cudaStream_t stream) const {
  if (p.options.bias != nullptr) {
    set(plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.options.bias);
  }
  const float one = 1.0f, beta = p.options.addend != nullptr ? 1.0f : 0.0f;
  return cublasLtMatmul(library_.get(), plan.product.get(), &one, p.b.data, plan.b.get(), p.a.data,
                        plan.a.get(), &beta, addend_or(p.options, p.c), plan.c.get(), p.c.data,
                        plan.c.get(), &algorithm, workspace,
                        static_cast<std::size_t>(workspace_bytes_), stream);
}

bool MatmulPlans::run(const Product& product, std::byte* workspace, cudaStream_t stream) {
  const Plan& plan = this->plan(product);
  if (!plan.found) return false;
  check(queue(plan, plan.algorithm, product, workspace, stream), "a product");
  return true;
}

double MatmulPlans::seconds(const Trial& trial, const Algorithm& algorithm, int runs) const {
  const device::EventHandle start = device::make_event(cudaEventDefault);
  const device::EventHandle stop = device::make_event(cudaEventDefault);
  device::check(cudaEventRecord(start.get(), trial.stream), "cudaEventRecord");
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (int k = 0; k < runs && status == CUBLAS_STATUS_SUCCESS; ++k) {
    status = queue(trial.plan, algorithm, trial.product, trial.workspace, trial.stream);
  }
  device::check(cudaEventRecord(stop.get(), trial.stream), "cudaEventRecord");
  device::check(cudaEventSynchronize(stop.get()), "the search for a matrix algorithm");
  if (status != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<double>::infinity();
  float milliseconds = 0;
  device::check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                "cudaEventElapsedTime");
  return milliseconds * 1e-3 / runs;
}

// Under load a card's power bounds its clock, and an algorithm that is the fastest in a burst may
// draw more than it gains: measured, the fastest of bursts made a training step 2% slower. So a
// burst only tells which may be fast; those few then run long enough for the clock to settle at
// what each of them draws. The library's own first choice runs before and after them, as clocks
// drift.
void MatmulPlans::search(const Product& product, std::byte* workspace, cudaStream_t stream) {
  constexpr int burst = 2, bursts = 3;
  constexpr std::size_t finalists = 5;  // beside the first choice
  constexpr double warm_seconds = 0.02, timed_seconds = 0.04;
  constexpr double worthwhile = 0.98;
  Plan& plan = this->plan(product);
  if (!plan.found) return;
  plan.chosen = true;
  const Trial trial{plan, product, workspace, stream};
  struct Runner {
    double seconds;
    std::size_t index;
  };
  const auto in_bursts = [&](std::size_t index) {
    double best = seconds(trial, plan.offered[index], 1);  // loads the kernel
    for (int k = 0; k < bursts; ++k) {
      best = std::min(best, seconds(trial, plan.offered[index], burst));
    }
    return Runner{best, index};
  };
  std::vector<Runner> others;
  for (std::size_t i = 1; i < plan.offered.size(); ++i) {
    const Runner runner = in_bursts(i);
    if (std::isfinite(runner.seconds)) others.push_back(runner);
  }
  if (others.empty()) return;
  std::sort(others.begin(), others.end(),
            [](const Runner& a, const Runner& b) { return a.seconds < b.seconds; });
  others.resize(std::min(others.size(), finalists));
  const auto sustained = [&](const Runner& runner) {
    const auto runs = [&](double time) {
      return std::max(1, static_cast<int>(std::ceil(time / runner.seconds)));
    };
    const Algorithm& algorithm = plan.offered[runner.index];
    seconds(trial, algorithm, runs(warm_seconds));
    return seconds(trial, algorithm, runs(timed_seconds));
  };
  const Runner first = in_bursts(0);
  double to_beat = sustained(first);
  Runner best{std::numeric_limits<double>::infinity(), 0};
  for (const Runner& other : others) {
    const double time = sustained(other);
    if (time < best.seconds) best = {time, other.index};
  }
  to_beat = std::min(to_beat, sustained(first));
  if (best.seconds < worthwhile * to_beat) plan.algorithm = plan.offered[best.index];
}

bool MatmulPlans::chosen(const Product& product) {
  const Plan& plan = this->plan(product);
  return plan.chosen || plan.offered.empty();
}

// A choice is the library's own 64 bytes, which it takes back in the same version.
void MatmulPlans::load_choices(const GemmChoices& choices) {
  for (const auto& [product, choice] : choices) {
    Key key{};
    Algorithm algorithm{};
    if (!read_numbers(product, 10, key) || !read_numbers(choice, 16, algorithm.data)) continue;
    choices_[key] = algorithm;
  }
}

GemmChoices MatmulPlans::choices() const {
  GemmChoices choices;
  for (const auto& [key, plan] : plans_) {
    if (plan.chosen)
      choices[fmt::format("{}", fmt::join(key, " "))] =
          fmt::format("{:x}", fmt::join(plan.algorithm.data, " "));
  }
  return choices;
}

}  // namespace ebb::kernels
