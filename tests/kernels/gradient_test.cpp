// The reference's backward ops against central differences of its forward ops, all in double. What
// passes here is the specification that everything fast is compared with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/rope.h"

namespace ebb::kernels::reference {
namespace {

using Values = std::vector<double>;
using Inputs = std::vector<Values>;

struct GradientCase {
  std::string name;
  std::vector<std::size_t> inputs;  // their sizes
  std::size_t output = 0;           // its size
  std::function<Values(const Inputs&)> forward;
  // The gradient of each input, from the gradient of the output.
  std::function<Inputs(const Inputs&, const Values& dout)> backward;
};

Matrix<double> matrix(Values& values, std::int64_t rows, std::int64_t cols) {
  return {values.data(), rows, cols, cols};
}
Matrix<const double> matrix(const Values& values, std::int64_t rows, std::int64_t cols) {
  return {values.data(), rows, cols, cols};
}

// c = a b; da = dc b^T, db = a^T dc: the three forms that training uses.
GradientCase matmul_gradient(std::int64_t m, std::int64_t n, std::int64_t k) {
  GradientCase c;
  c.name = fmt::format("matmul m{} n{} k{}", m, n, k);
  c.inputs = {std::size_t(m * k), std::size_t(k * n), std::size_t(n)};
  c.output = std::size_t(m * n);
  c.forward = [=](const Inputs& in) {
    Values out(m * n);
    MatmulExtras<double> extras;
    extras.bias = in[2].data();
    matmul(matrix(out, m, n), matrix(in[0], m, k), matrix(in[1], k, n), extras);
    return out;
  };
  c.backward = [=](const Inputs& in, const Values& dout) {
    Inputs d{Values(m * k), Values(k * n), Values(n)};
    MatmulExtras<double> extras;
    extras.transpose_b = true;
    matmul(matrix(d[0], m, k), matrix(dout, m, n), matrix(in[1], k, n), extras);
    extras = {};
    extras.transpose_a = true;
    matmul(matrix(d[1], k, n), matrix(in[0], m, k), matrix(dout, m, n), extras);
    column_sums(d[2].data(), matrix(dout, m, n));
    return d;
  };
  return c;
}

GradientCase embed_gradient(double scale) {
  static constexpr std::int32_t ids[] = {2, 0, 2, 4, 2};
  GradientCase c;
  c.name = fmt::format("embed by {}", scale);
  c.inputs = {5 * 3};
  c.output = 5 * 3;
  c.forward = [=](const Inputs& in) {
    Values out(15);
    embed(matrix(out, 5, 3), matrix(in[0], 5, 3), ids, scale);
    return out;
  };
  c.backward = [=](const Inputs&, const Values& dout) {
    Inputs d{Values(15, 0.0)};
    embed_backward(matrix(d[0], 5, 3), matrix(dout, 5, 3), ids, scale);
    return d;
  };
  return c;
}

GradientCase add_row_gradient(std::int64_t rows, std::int64_t cols) {
  GradientCase c;
  c.name = fmt::format("add_row {}x{}", rows, cols);
  c.inputs = {std::size_t(rows * cols), std::size_t(cols)};
  c.output = std::size_t(rows * cols);
  c.forward = [=](const Inputs& in) {
    Values out = in[0];
    add_row(matrix(out, rows, cols), in[1].data());
    return out;
  };
  c.backward = [=](const Inputs&, const Values& dout) {
    Inputs d{dout, Values(cols)};
    column_sums(d[1].data(), matrix(dout, rows, cols));
    return d;
  };
  return c;
}

GradientCase norm_gradient(std::int64_t rows, std::int64_t width, LayerNorm::Kind kind,
                           std::int64_t groups, float offset, bool in_place) {
  const std::int64_t cols = width * groups;
  const LayerNorm how{kind, 0.1f, offset, groups};
  const bool bias = kind == LayerNorm::Kind::layer;
  GradientCase c;
  c.name = fmt::format("{} norm {}x{} in {} groups", kind == LayerNorm::Kind::rms ? "rms" : "layer",
                       rows, cols, groups);
  c.inputs = {std::size_t(rows * cols), std::size_t(width), std::size_t(width)};
  c.output = std::size_t(rows * cols);
  const auto forward = [=](const Inputs& in, Values& stats) {
    Values out(rows * cols);
    norm(matrix(out, rows, cols), stats.data(), false, matrix(in[0], rows, cols), in[1].data(),
         bias ? in[2].data() : nullptr, how);
    return out;
  };
  c.forward = [=](const Inputs& in) {
    Values stats(how.stats(rows));
    return forward(in, stats);
  };
  c.backward = [=](const Inputs& in, const Values& dout) {
    Values stats(how.stats(rows));
    forward(in, stats);
    Inputs d{in_place ? dout : Values(rows * cols, 0.0), Values(width), Values(width)};
    const Values& dy = in_place ? d[0] : dout;
    const NormGradientPlaces<double, double> to{matrix(d[0], rows, cols), !in_place, d[1].data(),
                                                bias ? d[2].data() : nullptr};
    norm_backward(to, matrix(dy, rows, cols), matrix(in[0], rows, cols),
                  std::as_const(stats).data(), in[1].data(), how);
    return d;
  };
  return c;
}

// Gradients go through the inverse rotation only if the table holds rotations.
GradientCase rope_gradient() {
  const ModelOps::RopeShape shape{2, 6, 1, 3, false};
  std::vector<float> table;
  for (int i = 0; i < 4 * 3; ++i) {
    table.push_back(std::cos(0.7f * static_cast<float>(i)));
    table.push_back(std::sin(0.7f * static_cast<float>(i)));
  }
  GradientCase c;
  c.name = "rope";
  c.inputs = {5 * 12};
  c.output = 5 * 12;
  const auto turned = [=](const Values& x, bool inverse) {
    Values out = x;
    ModelOps::RopeShape s = shape;
    s.inverse = inverse;
    rope(matrix(out, 5, 12), table.data(), s);
    return out;
  };
  c.forward = [=](const Inputs& in) { return turned(in[0], false); };
  c.backward = [=](const Inputs&, const Values& dout) { return Inputs{turned(dout, true)}; };
  return c;
}

GradientCase attention_gradient(const AttentionShape& s) {
  const std::int64_t rows = s.batch * s.keys;
  const std::int64_t q_cols = s.heads * s.head_dim, kv_cols = s.kv_heads * s.head_dim;
  GradientCase c;
  c.name = fmt::format("attention b{} s{} h{}/{} d{} w{}", s.batch, s.keys, s.heads, s.kv_heads,
                       s.head_dim, s.window);
  c.inputs = {std::size_t(rows * q_cols), std::size_t(rows * kv_cols), std::size_t(rows * kv_cols)};
  c.output = std::size_t(rows * q_cols);
  const auto forward = [=](const Inputs& in, Values& log_sums) {
    Values out(rows * q_cols);
    attention(matrix(out, rows, q_cols), log_sums.data(), matrix(in[0], rows, q_cols),
              matrix(in[1], rows, kv_cols), matrix(in[2], rows, kv_cols), s);
    return out;
  };
  c.forward = [=](const Inputs& in) {
    Values log_sums(rows * s.heads);
    return forward(in, log_sums);
  };
  c.backward = [=](const Inputs& in, const Values& dout) {
    Values log_sums(rows * s.heads);
    const Values out = forward(in, log_sums);
    Inputs d{Values(rows * q_cols), Values(rows * kv_cols), Values(rows * kv_cols)};
    const AttentionTensors<double> tensors{matrix(dout, rows, q_cols), matrix(in[0], rows, q_cols),
                                           matrix(in[1], rows, kv_cols),
                                           matrix(in[2], rows, kv_cols), matrix(out, rows, q_cols)};
    attention_backward(matrix(d[0], rows, q_cols), matrix(d[1], rows, kv_cols),
                       matrix(d[2], rows, kv_cols), tensors, log_sums.data(), s);
    return d;
  };
  return c;
}

GradientCase activation_gradient(Activation activation, bool gated) {
  constexpr std::int64_t rows = 3, cols = 4;
  const std::int64_t width = gated ? 2 * cols : cols;
  GradientCase c;
  c.name = fmt::format("activation {}{}", static_cast<int>(activation), gated ? " gated" : "");
  c.inputs = {std::size_t(rows * width)};
  c.output = std::size_t(rows * cols);
  c.forward = [=](const Inputs& in) {
    Values out(rows * cols);
    activate(matrix(out, rows, cols), matrix(in[0], rows, width), activation);
    return out;
  };
  c.backward = [=](const Inputs& in, const Values& dout) {
    Inputs d{in[0]};  // in place
    activate_backward(matrix(d[0], rows, width), Matrix<double>{}, matrix(dout, rows, cols),
                      matrix(std::as_const(d[0]), rows, width), activation);
    return d;
  };
  return c;
}

// The op scales all rows alike, so its gradient is taken with one scale for all losses.
GradientCase loss_gradient(std::int64_t rows, std::int64_t cols) {
  GradientCase c;
  c.name = fmt::format("cross_entropy {}x{}", rows, cols);
  c.inputs = {std::size_t(rows * cols)};
  c.output = 1;
  const auto both = [=](const Inputs& in, Values& dlogits, double scale) {
    Values losses(rows);
    std::vector<std::int32_t> targets(rows);
    for (std::int64_t i = 0; i < rows; ++i) targets[i] = static_cast<std::int32_t>(i % cols) - 1;
    cross_entropy(matrix(dlogits, rows, cols), losses.data(), matrix(in[0], rows, cols),
                  std::span<const std::int32_t>(targets), scale);
    double total = 0;
    for (const double loss : losses) total += loss;
    return Values{total};
  };
  c.forward = [=](const Inputs& in) {
    Values dlogits(rows * cols);
    return both(in, dlogits, 1.0);
  };
  c.backward = [=](const Inputs& in, const Values& dout) {
    Inputs d{Values(rows * cols)};
    both(in, d[0], dout[0]);
    return d;
  };
  return c;
}

Values normal_values(std::size_t count, std::uint64_t stream) {
  const CounterRng rng(11, stream);
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = rng.normal(i);
  return values;
}

double dot_product(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(ReferenceGradients, MatchCentralDifferences) {
  std::vector<GradientCase> cases{matmul_gradient(3, 4, 5),
                                  embed_gradient(1.0),
                                  embed_gradient(2.5),
                                  add_row_gradient(3, 4),
                                  rope_gradient(),
                                  attention_gradient({2, 4, 4, 4, 2, 3, 0.7f}),
                                  attention_gradient({1, 6, 6, 1, 1, 2, 1.3f}),
                                  attention_gradient({2, 6, 6, 2, 1, 2, 1.3f, 3}),
                                  loss_gradient(4, 5)};
  for (const LayerNorm::Kind kind : {LayerNorm::Kind::rms, LayerNorm::Kind::layer}) {
    cases.push_back(norm_gradient(3, 5, kind, 1, 0.0f, false));
    cases.push_back(norm_gradient(3, 4, kind, 2, 1.0f, true));
  }
  for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    cases.push_back(activation_gradient(act, false));
    cases.push_back(activation_gradient(act, true));
  }
  for (const GradientCase& c : cases) {
    Inputs inputs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      inputs.push_back(normal_values(c.inputs[i], i));
    }
    const Values dout = normal_values(c.output, 99);
    const Inputs found = c.backward(inputs, dout);
    ASSERT_EQ(found.size(), inputs.size()) << c.name;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t j = 0; j < inputs[i].size(); ++j) {
        constexpr double step = 1e-5;
        Inputs moved = inputs;
        moved[i][j] += step;
        const double above = dot_product(c.forward(moved), dout);
        moved[i][j] -= 2 * step;
        const double expected = (above - dot_product(c.forward(moved), dout)) / (2 * step);
        ASSERT_NEAR(found[i][j], expected, 1e-7 * (1 + std::abs(expected)))
            << c.name << ": input " << i << ", index " << j;
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels::reference
