// CUTLASS's product for Hopper with an epilogue of ours: two groups of warps have a tile each, and
// while one group multiplies the other sees to its results.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "ebb/error.h"
#include "kernels/cuda/model/activations.cuh"
#include "kernels/model_ops.h"

namespace ebb::kernels::activated {

namespace collective = cutlass::epilogue::collective;
namespace fusion = cutlass::epilogue::fusion;
using Element = cutlass::bfloat16_t;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Stride = cute::Stride<std::int64_t, cute::_1, std::int64_t>;  // of rows, columns, matrices
using Silu = cuda_model::Silu<bf16>;

// Of 128 x 128, 64 x 256, 128 x 256 (by both groups together) and this one, this was the fastest by
// 4 to 15% on an H200 for the MLPs of 1.5B to 7B. All products here have it: with and without a
// second result they have the same bits.
using Tile = cute::Shape<cute::_128, cute::Int<192>, cute::_64>;
using Cluster = cute::Shape<cute::_2, cute::_1, cute::_1>;
constexpr auto kRounding = cutlass::FloatRoundStyle::round_to_nearest;
constexpr int kPack = 8;  // elements of 16 bytes

// Parts of an epilogue. A Load or Store is of a matrix besides those that every product has.
using Schedule = cutlass::epilogue::TmaWarpSpecialized;
using Tiles = collective::detail::EpilogueDescriptor<Tile, collective::EpilogueTileAuto, Element,
                                                     Element, Schedule>;
using Loaded = collective::detail::AuxLoadDescriptor<Tiles, RowMajor, Element>;
using Stored = collective::detail::AuxStoreDescriptor<Tiles, RowMajor, Element>;
using Load = fusion::Sm90AuxLoad<Loaded::Stages, Loaded::EpilogueTile, Element, Stride,
                                 Loaded::SmemLayoutAtom, Loaded::CopyOpS2R>;
using Store = fusion::Sm90AuxStore<Stored::Stages, Stored::EpilogueTile, Element, kRounding, Stride,
                                   Stored::SmemLayoutAtom, Stored::CopyOpR2S>;
using Accumulator = fusion::Sm90AccFetch;
using Source = fusion::Sm90SrcFetch<Element>;
template <template <class> class Function, class Result>
using Compute = fusion::Sm90Compute<Function, Result, float, kRounding>;
// For each node those that it is computed from. The last one's result is the product's.
template <class Edges, class... Nodes>
using Graph = fusion::Sm90TopologicalVisitor<float, Edges, Nodes...>;
template <int... Nodes>
using From = cute::seq<Nodes...>;

// silu(gate) * factor. What else a node is computed from is there to be stored first.
template <class T>
struct Activated;
template <int N>
struct Activated<cutlass::Array<float, N>> {
  using Floats = cutlass::Array<float, N>;
  template <class... Before>
  __device__ Floats operator()(const Floats& gate, const Floats& factor, const Before&...) const {
    Floats result;
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = Silu(gate[i]).times_value(factor[i]);
    return result;
  }
};

template <class LayoutOfB, class SourceElement, class Epilogue>
struct Kernel {
  using Results =
      typename collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
                                             Tile, Cluster, collective::EpilogueTileAuto, float,
                                             float, SourceElement, RowMajor, kPack, Element,
                                             RowMajor, kPack, Schedule, Epilogue>::CollectiveOp;
  using Product = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, kPack, Element,
      LayoutOfB, kPack, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Results::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedPingpong>::CollectiveOp;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<cutlass::gemm::kernel::GemmUniversal<
      cute::Shape<int, int, int, int>, Product, Results, cutlass::gemm::PersistentScheduler>>;
};

inline const Element* in(ConstView view) { return static_cast<const Element*>(view.data); }
inline Element* in(View view) { return static_cast<Element*>(view.data); }
inline Stride stride_of(ConstView view) { return {view.stride, {}, 0}; }

inline void check(cutlass::Status status) {
  if (status == cutlass::Status::kSuccess) return;
  throw DeviceError(std::string("a product with its activation: CUTLASS says ") +
                    cutlass::cutlassGetStatusString(status));
}

// `fill` sets the epilogue's arguments; `result` is what its last node makes. Tiles go along
// its columns, up to `bands` clusters of its rows at a time: what they read stays in the cache.
template <class Gemm, class Fill>
void queue(int bands, const Product& product, View result, cudaStream_t stream, const Fill& fill) {
  typename Gemm::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  arguments.problem_shape = {static_cast<int>(product.c.rows), static_cast<int>(product.c.cols),
                             static_cast<int>(product.a.cols), 1};
  arguments.mainloop.ptr_A = in(product.a);
  cute::get<0>(arguments.mainloop.dA) = product.a.stride;
  arguments.mainloop.ptr_B = in(product.b);
  // Of b's two strides one is a constant 1: that of columns as b is stored.
  if constexpr (std::is_same_v<typename Gemm::LayoutB, RowMajor>) {
    cute::get<1>(arguments.mainloop.dB) = product.b.stride;
  } else {
    cute::get<0>(arguments.mainloop.dB) = product.b.stride;
  }
  arguments.epilogue.ptr_D = in(result);
  arguments.epilogue.dD = stride_of(result);
  fill(arguments.epilogue);
  arguments.scheduler.max_swizzle_size = bands;
  arguments.scheduler.raster_order = cutlass::gemm::kernel::detail::RasterOrderOptions::AlongN;
  Gemm gemm;
  check(gemm.initialize(arguments, nullptr, stream));
  check(gemm.run(stream));
}

}  // namespace ebb::kernels::activated
