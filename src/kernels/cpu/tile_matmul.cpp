#include "kernels/cpu/tile_matmul.h"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl_version.h>

#include <mutex>

#include "base/rng.h"
#include "ebb/error.h"

namespace ebb::kernels {
namespace {

// A training run has dozens of shapes; prompts come in all lengths, and each would stay compiled.
constexpr std::size_t kMostShapes = 8192;

// Tiles are Ebb's threads already: the library's own on top would fight for the same cores. OpenMP
// keeps the number by thread.
void use_one_openmp_thread() {
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// `stride` is that of the matrix as it is stored; transposed, its rows are the columns there.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t cols, DType type, std::int64_t stride,
                          bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, cols}, dnnl_type(type), strides};
}

// The shape is in the text: it is what a report to the library needs.
[[noreturn]] void fail(const char* act, const TileKey& key, const dnnl::error& error) {
  throw DeviceError(fmt::format(
      "oneDNN could not {} a {}x{}x{} product of {} into {} (strides {}, {}, {}): {}", act, key.m,
      key.n, key.k, name_of(key.in), name_of(key.out), key.lda, key.ldb, key.ldc, error.what()));
}

// From version 3 on a description needs no object of its own.
template <class... Matrices>
dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& how,
                                      const Matrices&... matrices) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, matrices..., how};
#else
  return {dnnl::matmul::desc(matrices...), how, engine};
#endif
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const TileKey& key) {
  use_one_openmp_thread();
  dnnl::primitive_attr attributes;
  // Kernels allocate nothing: the library works in scratch that the plan counted.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.0f);
    attributes.set_post_ops(after);
  }
  const auto a = matrix(key.m, key.k, key.in, key.lda, key.transpose_a);
  const auto b = matrix(key.k, key.n, key.in, key.ldb, key.transpose_b);
  const auto c = matrix(key.m, key.n, key.out, key.ldc, false);
  try {
    if (!key.bias) return describe(engine, attributes, a, b, c);
    const dnnl::memory::desc bias({1, key.n}, dnnl_type(key.out), dnnl::memory::dims{key.n, 1});
    return describe(engine, attributes, a, b, bias, c);
  } catch (const dnnl::error& error) {
    fail("prepare", key, error);
  }
}

}  // namespace

TileMatmul::TileMatmul(const dnnl::engine& engine, const TileKey& key)
    : description_(describe(engine, key)), primitive_(description_) {}

void TileMatmul::run(dnnl::stream& stream, const Operands& operands) const {
  use_one_openmp_thread();
  const dnnl::engine engine = description_.get_engine();
  const auto memory = [&](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, engine, const_cast<void*>(data));
  };
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(description_.src_desc(), operands.a)},
      {DNNL_ARG_WEIGHTS, memory(description_.weights_desc(), operands.b)},
      {DNNL_ARG_DST, memory(description_.dst_desc(), operands.c)},
      {DNNL_ARG_SCRATCHPAD, memory(description_.scratchpad_desc(), operands.scratch)}};
  if (operands.bias) {
    arguments.emplace(DNNL_ARG_BIAS, memory(description_.bias_desc(), operands.bias));
  }
  try {
    primitive_.execute(stream, arguments);
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("oneDNN failed in a matrix product: {}", error.what()));
  }
}

TileCache::TileCache(int slots) : engine_(dnnl::engine::kind::cpu, 0) {
  for (int slot = 0; slot < slots; ++slot) streams_.emplace_back(engine_);
}

// Whether the library has kernels for bf16; elsewhere operands are widened to fp32 first
// (CpuModelLibrary::widens).
bool TileCache::has_bf16_products() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return (static_cast<unsigned>(isa) & static_cast<unsigned>(dnnl::cpu_isa::avx512_core)) ==
         static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
}

std::size_t TileCache::Hash::operator()(const TileKey& key) const {
  std::uint64_t hash = static_cast<std::uint64_t>(key.in) * 64 +
                       static_cast<std::uint64_t>(key.out) * 16 + key.transpose_a * 8u +
                       key.transpose_b * 4u + key.bias * 2u + key.accumulate;
  for (const std::int64_t part : {key.m, key.n, key.k, key.lda, key.ldb, key.ldc}) {
    hash = mix_bits(hash ^ static_cast<std::uint64_t>(part));
  }
  return hash;
}

const TileMatmul& TileCache::find(const TileKey& key) {
  {
    std::shared_lock lock(mutex_);
    if (const auto it = found_.find(key); it != found_.end()) return *it->second;
  }
  // Compiling takes milliseconds, without the lock. Where two threads make the same one, the first
  // counts.
  auto made = std::make_unique<TileMatmul>(engine_, key);
  std::unique_lock lock(mutex_);
  const auto [at, added] = found_.try_emplace(key, std::move(made));
  if (added) ++made_;
  return *at->second;
}

// Between calls alone: those under way hold references.
void TileCache::trim() {
  std::unique_lock lock(mutex_);
  if (found_.size() > kMostShapes) found_.clear();
}

}  // namespace ebb::kernels
