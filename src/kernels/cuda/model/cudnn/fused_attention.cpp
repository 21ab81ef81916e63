// cuDNN's scaled dot product attention through its C++ front end: a graph a problem, built at its
// first use. The backward is the deterministic one.
#include "kernels/cuda/model/fused_attention.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <bit>
#include <map>
#include <unordered_map>

#include "ebb/error.h"

namespace ebb::kernels {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Names of a graph's tensors.
enum Uid : std::int64_t { kQ = 1, kK, kV, kOut, kLogSums, kDout, kDq, kDk, kDv };

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(std::string("attention: ") + what + ": cuDNN says " +
                    cudnnGetErrorString(status));
}

struct HandleRelease {
  void operator()(cudnnContext* handle) const { cudnnDestroy(handle); }
};
using Handle = std::unique_ptr<cudnnContext, HandleRelease>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;  // null: the library cannot do it
  Bytes workspace = 0;
};

using Key = std::array<std::int64_t, 19>;

Key key_of(const FusedProblem& p) {
  const AttentionShape& s = p.shape;
  return {s.batch,
          s.queries,
          s.keys,
          s.heads,
          s.kv_heads,
          s.head_dim,
          std::bit_cast<std::int32_t>(s.scale),
          s.window,
          p.backward,
          p.statistics,
          p.q_stride,
          p.k_stride,
          p.v_stride,
          p.out_stride,
          p.dout_stride,
          p.dq_stride,
          p.dk_stride,
          p.dv_stride,
          p.causal};
}

// An operand: [batch, heads, length, head_dim] over rows of tokens.
struct Heads {
  std::int64_t batch, heads, length, head_dim;
  std::int64_t stride;

  std::vector<std::int64_t> dims() const { return {batch, heads, length, head_dim}; }
  std::vector<std::int64_t> strides() const { return {length * stride, head_dim, stride, 1}; }
};
Heads of_queries(const AttentionShape& s, std::int64_t stride) {
  return {s.batch, s.heads, s.queries, s.head_dim, stride};
}
Heads of_keys(const AttentionShape& s, std::int64_t stride) {
  return {s.batch, s.kv_heads, s.keys, s.head_dim, stride};
}

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention() {
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle), "starting the library");
    handle_.reset(handle);
  }

  std::optional<Bytes> workspace(const FusedProblem& problem) override {
    const Plan& plan = plan_of(problem);
    if (!plan.graph) return std::nullopt;
    return plan.workspace;
  }

  void run(const FusedProblem& problem, const FusedOperands& operands, std::byte* workspace,
           cudaStream_t stream) override;

  std::int64_t plans() const override { return static_cast<std::int64_t>(plans_.size()); }

 private:
  const Plan& plan_of(const FusedProblem& problem);
  Plan build(const FusedProblem& problem);

  Handle handle_;
  std::map<Key, Plan> plans_;
};

Tensor input(fe::graph::Graph& graph, Uid uid, const Heads& heads) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim(heads.dims())
                          .set_stride(heads.strides()));
}

void output(const Tensor& tensor, Uid uid, const Heads& heads) {
  tensor->set_output(true).set_uid(uid).set_dim(heads.dims()).set_stride(heads.strides());
}

void describe_log_sums(fe::graph::Tensor_attributes& tensor, const AttentionShape& s) {
  tensor.set_uid(kLogSums)
      .set_dim({s.batch, s.heads, s.queries, 1})
      .set_stride({s.heads * s.queries, s.queries, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

// Nothing right of the diagonal. The library keeps a key where key + left bound > query: so many
// keys, the query's own among them, which is what a window counts.
template <class Attributes>
void set_mask(Attributes& attributes, const FusedProblem& problem) {
  if (!problem.causal) return;
  const AttentionShape& shape = problem.shape;
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  if (shape.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(shape.window));
}

void add_forward(fe::graph::Graph& graph, const FusedProblem& problem) {
  const AttentionShape& shape = problem.shape;
  const Tensor q = input(graph, kQ, of_queries(shape, problem.q_stride));
  const Tensor k = input(graph, kK, of_keys(shape, problem.k_stride));
  const Tensor v = input(graph, kV, of_keys(shape, problem.v_stride));
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(problem.statistics)
                        .set_attn_scale(shape.scale);
  set_mask(attributes, problem);
  const auto [out, log_sums] = graph.sdpa(q, k, v, std::move(attributes));
  output(out, kOut, of_queries(shape, problem.out_stride));
  if (problem.statistics) {
    describe_log_sums(*log_sums, shape);
    log_sums->set_output(true);
  }
}

void add_backward(fe::graph::Graph& graph, const FusedProblem& problem) {
  const AttentionShape& shape = problem.shape;
  const Tensor q = input(graph, kQ, of_queries(shape, problem.q_stride));
  const Tensor k = input(graph, kK, of_keys(shape, problem.k_stride));
  const Tensor v = input(graph, kV, of_keys(shape, problem.v_stride));
  const Tensor out = input(graph, kOut, of_queries(shape, problem.out_stride));
  const Tensor dout = input(graph, kDout, of_queries(shape, problem.dout_stride));
  fe::graph::Tensor_attributes statistics;
  describe_log_sums(statistics, shape);
  const Tensor log_sums = graph.tensor(statistics);
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_attn_scale(shape.scale)
                        .set_deterministic_algorithm(true);
  set_mask(attributes, problem);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, out, dout, log_sums, std::move(attributes));
  output(dq, kDq, of_queries(shape, problem.dq_stride));
  output(dk, kDk, of_keys(shape, problem.dk_stride));
  output(dv, kDv, of_keys(shape, problem.dv_stride));
}

Plan CudnnAttention::build(const FusedProblem& problem) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  problem.backward ? add_backward(*graph, problem) : add_forward(*graph, problem);
  const cudnnHandle_t handle = handle_.get();
  // A refusal at any of these steps means that the library has no kernel for the problem.
  if (graph->validate().is_bad() || graph->build_operation_graph(handle).is_bad() ||
      graph->create_execution_plans({fe::HeurMode_t::A}).is_bad() ||
      graph->check_support(handle).is_bad() || graph->build_plans(handle).is_bad()) {
    return {};
  }
  std::int64_t workspace = 0;
  if (graph->get_workspace_size(workspace).is_bad()) return {};
  return {std::move(graph), workspace};
}

const Plan& CudnnAttention::plan_of(const FusedProblem& problem) {
  const Key key = key_of(problem);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, build(problem)).first->second;
}

void CudnnAttention::run(const FusedProblem& problem, const FusedOperands& operands,
                         std::byte* workspace, cudaStream_t stream) {
  const Plan& plan = plan_of(problem);
  if (!plan.graph) throw DeviceError("attention: cuDNN has no plan for this problem");
  check(cudnnSetStream(handle_.get(), stream), "setting the stream");
  std::unordered_map<std::int64_t, void*> pointers{{kQ, const_cast<void*>(operands.q)},
                                                   {kK, const_cast<void*>(operands.k)},
                                                   {kV, const_cast<void*>(operands.v)},
                                                   {kOut, operands.out}};
  if (problem.backward || problem.statistics) pointers.emplace(kLogSums, operands.log_sums);
  if (problem.backward) {
    pointers.emplace(kDout, const_cast<void*>(operands.dout));
    pointers.emplace(kDq, operands.dq);
    pointers.emplace(kDk, operands.dk);
    pointers.emplace(kDv, operands.dv);
  }
  auto status = plan.graph->execute(handle_.get(), pointers, workspace);
  if (status.is_bad()) {
    throw DeviceError("attention: cuDNN did not run: " + status.get_message());
  }
}

}  // namespace

std::unique_ptr<FusedAttention> create_fused_attention() {
  return std::make_unique<CudnnAttention>();
}

std::string fused_attention_version() { return "cudnn " + std::to_string(cudnnGetVersion()); }

}  // namespace ebb::kernels
