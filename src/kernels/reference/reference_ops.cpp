#include "kernels/reference/reference_ops.h"

#include <cstring>
#include <vector>

#include "kernels/element_dispatch.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/rope.h"
#include "kernels/views.h"

namespace ebb::kernels {
namespace {

template <class T>
reference::Matrix<T> in(View view) {
  return {static_cast<T*>(view.data), view.rows, view.cols, view.stride};
}
template <class T>
reference::Matrix<const T> in(ConstView view) {
  return {static_cast<const T*>(view.data), view.rows, view.cols, view.stride};
}

}  // namespace

void ReferenceOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  with_element(c.type, [&]<class C>(C) {
    with_element(a.type, [&]<class T>(T) {
      const reference::MatmulExtras<C> extras{options.transpose_a, options.transpose_b,
                                              static_cast<const C*>(options.bias),
                                              static_cast<const C*>(options.addend)};
      reference::matmul(in<C>(c), in<T>(a), in<T>(b), extras);
    });
  });
}

void ReferenceOps::linear(View y, ConstView x, const WeightMatrix& weights,
                          const LinearOptions& options) {
  reference::linear(y, x, weights, options);
}

void ReferenceOps::column_sums(void* out, DType type, ConstView x) {
  with_element(type, [&]<class Out>(Out) {
    with_element(x.type,
                 [&]<class T>(T) { reference::column_sums(static_cast<Out*>(out), in<T>(x)); });
  });
}

void ReferenceOps::add_row(View x, const void* row) {
  with_element(x.type,
               [&]<class T>(T) { reference::add_row(in<T>(x), static_cast<const T*>(row)); });
}

void ReferenceOps::embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
                         std::int64_t first) {
  with_element(out.type,
               [&]<class T>(T) { reference::embed(in<T>(out), in<T>(table), ids, scale, first); });
}

void ReferenceOps::embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids,
                         float scale, std::int64_t first) {
  reference::embed(out, table, ids, scale, first);
}

void ReferenceOps::embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                                  float scale, std::int64_t first) {
  with_element(dy.type, [&]<class T>(T) {
    reference::embed_backward(in<float>(sums), in<T>(dy), ids, scale, first);
  });
}

void ReferenceOps::norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
                        const void* bias, const LayerNorm& norm) {
  with_element(x.type, [&]<class T>(T) {
    reference::norm(in<T>(y), stats, stats_given, in<T>(x), static_cast<const T*>(weight),
                    static_cast<const T*>(bias), norm);
  });
}

void ReferenceOps::norm_backward(const NormGradients& to, ConstView dy, ConstView x,
                                 const float* stats, const void* weight, const LayerNorm& norm) {
  with_element(to.type, [&]<class D>(D) {
    with_element(x.type, [&]<class T>(T) {
      const reference::NormGradientPlaces<T, D> places{
          in<T>(to.dx), to.add, static_cast<D*>(to.dweight), static_cast<D*>(to.dbias)};
      reference::norm_backward(places, in<T>(dy), in<T>(x), stats, static_cast<const T*>(weight),
                               norm);
    });
  });
}

void ReferenceOps::rope(View x, const float* table, const RopeShape& shape) {
  with_element(x.type, [&]<class T>(T) { reference::rope(in<T>(x), table, shape); });
}

void ReferenceOps::attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                             const AttentionShape& shape) {
  with_element(q.type, [&]<class T>(T) {
    reference::attention(in<T>(out), log_sums, in<T>(q), in<T>(k), in<T>(v), shape);
  });
}

void ReferenceOps::attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q,
                                      ConstView k, ConstView v, ConstView out,
                                      const float* log_sums, const AttentionShape& shape) {
  with_element(q.type, [&]<class T>(T) {
    const reference::AttentionTensors<T> tensors{in<T>(dout), in<T>(q), in<T>(k), in<T>(v),
                                                 in<T>(out)};
    reference::attention_backward(in<T>(dq), in<T>(dk), in<T>(dv), tensors, log_sums, shape);
  });
}

void ReferenceOps::activate(View h, ConstView x, Activation activation) {
  with_element(h.type, [&]<class T>(T) { reference::activate(in<T>(h), in<T>(x), activation); });
}

void ReferenceOps::activate_backward(View dx, View h, ConstView dh, ConstView x,
                                     Activation activation) {
  with_element(dh.type, [&]<class T>(T) {
    reference::activate_backward(in<T>(dx), in<T>(h), in<T>(dh), in<T>(x), activation);
  });
}

void ReferenceOps::cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                                 std::span<const std::int32_t> targets, float scale) {
  const int pieces = logits.count();
  // By the same steps as a head that goes by pieces, so that both are specified at once.
  std::vector<RowStatistic> all(targets.size() * static_cast<std::size_t>(pieces));
  const auto rows = static_cast<std::int64_t>(targets.size());
  const RowStatistics statistics{all.data(), rows, pieces, logits.first.cols};
  const auto piece = [&](int p) { return RowPiece{piece_of(logits, p), p * logits.first.cols}; };
  for (int p = 0; p < pieces; ++p) {
    row_statistics(all.data() + p * rows, piece(p), targets, dlogits.first.type);
  }
  row_losses(losses, statistics, targets, dlogits.first.type);
  for (int p = 0; p < pieces; ++p) {
    row_gradients(piece_of(dlogits, p), piece(p), statistics, targets, scale);
  }
}

void ReferenceOps::row_statistics(RowStatistic* to, const RowPiece& piece,
                                  std::span<const std::int32_t> targets, DType) {
  reference::row_statistics(to, in<float>(piece.logits), targets, piece.first);
}

void ReferenceOps::row_losses(float* losses, const RowStatistics& statistics,
                              std::span<const std::int32_t> targets, DType) {
  reference::row_losses(losses, reference::StatisticsOfRows(statistics), targets);
}

void ReferenceOps::row_gradients(View dlogits, const RowPiece& piece,
                                 const RowStatistics& statistics,
                                 std::span<const std::int32_t> targets, float scale) {
  with_element(dlogits.type, [&]<class D>(D) {
    reference::row_gradients(in<D>(dlogits), in<float>(piece.logits), piece.first,
                             reference::StatisticsOfRows(statistics), targets, scale);
  });
}

void ReferenceOps::sum(double* total, const float* values, std::int64_t count) {
  *total = reference::sum(values, count);
}

void ReferenceOps::convert(View dst, ConstView src) {
  with_element(dst.type, [&]<class D>(D) {
    with_element(src.type, [&]<class S>(S) {
      for (std::int64_t i = 0; i < dst.rows; ++i) {
        for (std::int64_t j = 0; j < dst.cols; ++j) {
          in<D>(dst)(i, j) = from_float<D>(to_float(in<S>(src)(i, j)));
        }
      }
    });
  });
}

void ReferenceOps::fill_zero(void* data, Bytes bytes) {
  std::memset(data, 0, static_cast<std::size_t>(bytes));
}

}  // namespace ebb::kernels
