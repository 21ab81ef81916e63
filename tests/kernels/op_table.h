// The makers of cases: one a kernel, from a shape to operands and a call.
#pragma once

#include "op_cases.h"

namespace ebb::kernels {

struct MatmulShape {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, bias = false;
  int addend = 0;  // 1: another matrix, 2: c itself
  std::int64_t padding = 0;
};

inline OpCase matmul_case(DType in, DType out, const MatmulShape& s) {
  const auto a = s.transpose_a ? std::pair{s.k, s.m} : std::pair{s.m, s.k};
  const auto b = s.transpose_b ? std::pair{s.n, s.k} : std::pair{s.k, s.n};
  OpCase c;
  c.name = fmt::format("matmul {}>{} m{} n{} k{}{}{}{}{} pad{}", name_of(in), name_of(out), s.m,
                       s.n, s.k, s.transpose_a ? " aT" : "", s.transpose_b ? " bT" : "",
                       s.bias ? " bias" : "",
                       s.addend == 0   ? ""
                       : s.addend == 1 ? " addend"
                                       : " accumulate",
                       s.padding);
  c.operands = {{"c", s.addend == 2 ? Role::inout : Role::output, out, s.m, s.n, s.padding},
                {"a", Role::input, in, a.first, a.second, s.padding},
                {"b", Role::input, in, b.first, b.second, s.padding},
                {"bias", Role::input, out, 1, s.n},
                {"addend", Role::input, out, s.m, s.n, s.padding}};
  c.run = [s](ModelOps& ops, Buffers& x) {
    MatmulOptions options{s.transpose_a, s.transpose_b};
    if (s.bias) options.bias = x[3].data();
    if (s.addend != 0) options.addend = s.addend == 1 ? x[4].data() : x[0].data();
    ops.matmul(x[0].view(), x[1].view(), x[2].view(), options);
  };
  c.tolerance = 4e-6 * std::sqrt(static_cast<double>(s.k) + 1);
  return c;
}

inline OpCase column_sums_case(DType in, DType out, std::int64_t rows, std::int64_t cols,
                               std::int64_t padding) {
  OpCase c;
  c.name =
      fmt::format("column_sums {}>{} {}x{} pad{}", name_of(in), name_of(out), rows, cols, padding);
  c.operands = {{"out", Role::output, out, 1, cols}, {"x", Role::input, in, rows, cols, padding}};
  c.run = [out](ModelOps& ops, Buffers& x) { ops.column_sums(x[0].data(), out, x[1].view()); };
  c.tolerance = 1e-6 * static_cast<double>(rows);
  return c;
}

inline OpCase add_row_case(DType type, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("add_row {} {}x{} pad{}", name_of(type), rows, cols, padding);
  c.operands = {{"x", Role::inout, type, rows, cols, padding}, {"row", Role::input, type, 1, cols}};
  c.run = [](ModelOps& ops, Buffers& x) { ops.add_row(x[0].view(), x[1].data()); };
  return c;
}

struct EmbedShape {
  std::int64_t rows, cols, vocabulary;
  float scale = 1.0f;
};

inline OpCase embed_case(DType type, const EmbedShape& s, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("embed {} {}x{} of {} by {} pad{}", name_of(type), s.rows, s.cols,
                       s.vocabulary, s.scale, padding);
  c.operands = {{"out", Role::output, type, s.rows, s.cols, padding},
                {"table", Role::input, type, s.vocabulary, s.cols, padding},
                {"ids", Role::input, DType::i32, 1, s.rows, 0, 0, 0, s.vocabulary}};
  c.run = [s](ModelOps& ops, Buffers& x) {
    ops.embed(x[0].view(), x[1].view(), x[2].ids(), s.scale);
  };
  c.tolerance = s.scale == 1.0f ? 0 : 1e-5;
  return c;
}

inline OpCase embed_backward_case(DType type, const EmbedShape& s, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("embed_backward {} {}x{} of {} by {} pad{}", name_of(type), s.rows, s.cols,
                       s.vocabulary, s.scale, padding);
  c.operands = {{"sums", Role::inout, DType::f32, s.vocabulary, s.cols, padding},
                {"dy", Role::input, type, s.rows, s.cols, padding},
                {"ids", Role::input, DType::i32, 1, s.rows, 0, 0, 0, s.vocabulary}};
  c.run = [s](ModelOps& ops, Buffers& x) {
    ops.embed_backward(x[0].view(), x[1].view(), x[2].ids(), s.scale);
  };
  c.tolerance = 0;  // the order of roundings is written down
  return c;
}

struct NormShape {
  std::int64_t rows, width;  // of a group
  LayerNorm norm = {};
  bool bias = false;
  std::int64_t cols() const { return width * norm.groups; }
};

inline std::string name_of(const NormShape& s) {
  return fmt::format("{} {}x{} in {} groups offset {}{}",
                     s.norm.kind == LayerNorm::Kind::rms ? "rms" : "layer", s.rows, s.cols(),
                     s.norm.groups, s.norm.weight_offset, s.bias ? " bias" : "");
}

// How a norm's operands lie: its stats given or found, its results in x's memory or apart.
struct NormCall {
  bool given = false, in_place = false;
  std::int64_t padding = 0;
};

inline OpCase norm_case(DType type, const NormShape& s, const NormCall& call) {
  OpCase c;
  c.name = fmt::format("norm {} {}{}{} pad{}", name_of(type), name_of(s),
                       call.given ? " given" : "", call.in_place ? " in place" : "", call.padding);
  c.operands = {
      {"y", call.in_place ? Role::inout : Role::output, type, s.rows, s.cols(), call.padding, 1.5,
       0.5},
      {"stats", call.given ? Role::input : Role::output, DType::f32, 1, s.norm.stats(s.rows)},
      {"x", Role::input, type, s.rows, s.cols(), call.padding, 1.5, 0.5},
      {"weight", Role::input, type, 1, s.width},
      {"bias", Role::input, type, 1, s.width}};
  c.run = [s, call](ModelOps& ops, Buffers& x) {
    ops.norm(x[0].view(), x[1].floats(), call.given, x[call.in_place ? 0 : 2].view(), x[3].data(),
             s.bias ? x[4].data() : nullptr, s.norm);
  };
  return c;
}

// In place: dx is dy's memory and nothing is added to.
inline OpCase norm_backward_case(DType type, DType out, const NormShape& s, const NormCall& call) {
  OpCase c;
  c.name = fmt::format("norm_backward {}>{} {}{} pad{}", name_of(type), name_of(out), name_of(s),
                       call.in_place ? " in place" : "", call.padding);
  c.operands = {{"dx", Role::inout, type, s.rows, s.cols(), call.padding},
                {"dweight", Role::output, out, 1, s.width},
                {"dbias", s.bias ? Role::output : Role::input, out, 1, s.width},
                {"dy", Role::input, type, s.rows, s.cols(), call.padding},
                {"x", Role::input, type, s.rows, s.cols(), call.padding},
                {"stats", Role::input, DType::f32, 1, s.norm.stats(s.rows), 0, 0.1, 1.0},
                {"weight", Role::input, type, 1, s.width}};
  c.run = [s, out, call](ModelOps& ops, Buffers& x) {
    const NormGradients to{.dx = x[0].view(),
                           .add = !call.in_place,
                           .dweight = x[1].data(),
                           .dbias = s.bias ? x[2].data() : nullptr,
                           .type = out};
    ops.norm_backward(to, x[call.in_place ? 0 : 3].view(), x[4].view(), x[5].floats(), x[6].data(),
                      s.norm);
  };
  c.tolerance = 1e-5 + 1e-6 * static_cast<double>(s.rows * s.norm.groups);
  return c;
}

inline OpCase rope_case(DType type, std::int64_t rows, const ModelOps::RopeShape& shape,
                        std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("rope {} {} rows, {} heads of {}, start {} length {}{} pad{}", name_of(type),
                       rows, shape.heads, shape.head_dim, shape.start, shape.length,
                       shape.inverse ? " inverse" : "", padding);
  c.operands = {{"x", Role::inout, type, rows, shape.heads * shape.head_dim, padding},
                {"table", Role::input, DType::f32, shape.start + shape.length, shape.head_dim}};
  c.run = [shape](ModelOps& ops, Buffers& x) { ops.rope(x[0].view(), x[1].floats(), shape); };
  return c;
}

inline std::string name_of(const AttentionShape& s) {
  return fmt::format("b{} q{} k{} h{}/{} d{} w{}", s.batch, s.queries, s.keys, s.heads, s.kv_heads,
                     s.head_dim, s.window);
}

inline std::vector<Operand> attention_operands(DType type, const AttentionShape& s,
                                               std::int64_t padding) {
  const std::int64_t queries = s.batch * s.queries, keys = s.batch * s.keys;
  return {{"out", Role::output, type, queries, s.heads * s.head_dim, padding},
          {"log_sums", Role::output, DType::f32, s.batch * s.heads, s.queries},
          {"q", Role::input, type, queries, s.heads * s.head_dim, padding},
          {"k", Role::input, type, keys, s.kv_heads * s.head_dim, padding},
          {"v", Role::input, type, keys, s.kv_heads * s.head_dim, padding}};
}

inline OpCase attention_case(DType type, const AttentionShape& shape, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("attention {} {} pad{}", name_of(type), name_of(shape), padding);
  c.operands = attention_operands(type, shape, padding);
  c.run = [shape](ModelOps& ops, Buffers& x) {
    ops.attention(x[0].view(), x[1].floats(), x[2].view(), x[3].view(), x[4].view(), shape);
  };
  return c;
}

inline OpCase attention_backward_case(DType type, const AttentionShape& shape,
                                      std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("attention_backward {} {} pad{}", name_of(type), name_of(shape), padding);
  c.operands = attention_operands(type, shape, padding);
  // `out` and `log_sums` come from the preparation.
  c.operands[0].role = c.operands[1].role = Role::input;
  const Operand q = c.operands[2], k = c.operands[3];
  const auto like = [&](const Operand& operand, const char* name, Role role) {
    Operand made = operand;
    made.name = name, made.role = role;
    c.operands.push_back(made);
  };
  like(q, "dout", Role::input), like(q, "dq", Role::output);
  like(k, "dk", Role::output), like(k, "dv", Role::output);
  c.prepare = [shape](ModelOps& ops, Buffers& x) {
    ops.attention(x[0].view(), x[1].floats(), x[2].view(), x[3].view(), x[4].view(), shape);
  };
  c.run = [shape](ModelOps& ops, Buffers& x) {
    ops.attention_backward(x[6].view(), x[7].view(), x[8].view(), x[5].view(), x[2].view(),
                           x[3].view(), x[4].view(), x[0].view(), x[1].floats(), shape);
  };
  c.tolerance = 5e-5;
  return c;
}

struct ActivationShape {
  std::int64_t rows, cols;
  Activation activation = Activation::silu;
  bool gated = true;
  std::int64_t width() const { return gated ? 2 * cols : cols; }
};

inline std::string name_of(const ActivationShape& s) {
  const char* names[] = {"silu", "gelu", "gelu_tanh"};
  return fmt::format("{}{} {}x{}", names[static_cast<int>(s.activation)], s.gated ? " gated" : "",
                     s.rows, s.cols);
}

inline OpCase activate_case(DType type, const ActivationShape& s, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("activate {} {} pad{}", name_of(type), name_of(s), padding);
  c.operands = {{"h", Role::output, type, s.rows, s.cols, padding},
                {"x", Role::input, type, s.rows, s.width(), padding, 4.0}};
  c.run = [s](ModelOps& ops, Buffers& x) { ops.activate(x[0].view(), x[1].view(), s.activation); };
  c.tolerance = 2e-6;
  return c;
}

// What a backward writes: the gradient, with the value again, or both over its operands.
enum class ActivationResults { gradient, both, in_place };

inline OpCase activate_backward_case(DType type, const ActivationShape& s,
                                     ActivationResults results, std::int64_t padding) {
  const bool in_place = results == ActivationResults::in_place;
  const bool both = results == ActivationResults::both;
  OpCase c;
  c.name = fmt::format("activate_backward {} {}{} pad{}", name_of(type), name_of(s),
                       in_place ? " in place"
                       : both   ? " with h"
                                : "",
                       padding);
  c.operands = {
      {"dx", in_place ? Role::inout : Role::output, type, s.rows, s.width(), padding, 4.0},
      {"dh", in_place ? Role::inout : Role::input, type, s.rows, s.cols, padding},
      {"x", Role::input, type, s.rows, s.width(), padding, 4.0},
      {"h", both ? Role::output : Role::input, type, s.rows, s.cols, padding}};
  c.run = [s, in_place, both](ModelOps& ops, Buffers& x) {
    const View h = in_place ? x[1].view() : both ? x[3].view() : View{};
    ops.activate_backward(x[0].view(), h, x[1].view(), x[in_place ? 0 : 2].view(), s.activation);
  };
  return c;
}

// A product of `depth` that is activated, or that is the gradient of an activation's value. An
// implementation may round it or not, and rounds what it makes of it once more.
struct ActivatedProduct {
  ActivationShape shape;
  std::int64_t depth;
  double deviation() const { return 0.25 / std::sqrt(static_cast<double>(depth)); }
};

inline OpCase product_activate_case(DType type, const ActivatedProduct& p, bool with_h,
                                    std::int64_t padding) {
  const ActivationShape& s = p.shape;
  OpCase c;
  c.name = fmt::format("product_activate {} {} of {}{} pad{}", name_of(type), name_of(s), p.depth,
                       with_h ? "" : " without h", padding);
  c.operands = {{"h", with_h ? Role::output : Role::input, type, s.rows, s.cols, padding},
                {"x", Role::output, type, s.rows, s.width(), padding},
                {"a", Role::input, type, s.rows, p.depth, padding},
                {"b", Role::input, type, s.width(), p.depth, padding, p.deviation()}};
  c.run = [s, with_h](ModelOps& ops, Buffers& x) {
    View h = x[0].view();
    if (!with_h) h.data = nullptr;
    ops.product_activate(h, {x[1].view(), x[2].view(), x[3].view(), {.transpose_b = true}},
                         s.activation);
  };
  c.tolerance = type == DType::bf16 ? 0x1p-7 : 1e-5;
  return c;
}

inline OpCase product_activate_backward_case(DType type, const ActivatedProduct& p,
                                             ActivationResults results, std::int64_t padding) {
  const ActivationShape& s = p.shape;
  const bool in_place = results == ActivationResults::in_place;
  const bool both = results == ActivationResults::both;
  OpCase c;
  c.name = fmt::format("product_activate_backward {} {} of {}{} pad{}", name_of(type), name_of(s),
                       p.depth,
                       in_place ? " in place"
                       : both   ? " with h"
                                : "",
                       padding);
  c.operands = {{"dx", in_place ? Role::inout : Role::output, type, s.rows, s.width(), padding},
                {"dh", in_place ? Role::output : Role::scratch, type, s.rows, s.cols, padding},
                {"x", Role::input, type, s.rows, s.width(), padding},
                {"h", both ? Role::output : Role::input, type, s.rows, s.cols, padding},
                {"a", Role::input, type, s.rows, p.depth, padding},
                {"b", Role::input, type, p.depth, s.cols, padding, p.deviation()}};
  c.run = [s, in_place, both](ModelOps& ops, Buffers& x) {
    const View h = in_place ? x[1].view() : both ? x[3].view() : View{};
    ops.product_activate_backward(x[0].view(), h, {x[1].view(), x[4].view(), x[5].view()},
                                  x[in_place ? 0 : 2].view(), s.activation);
  };
  c.tolerance = type == DType::bf16 ? 0x1p-7 : 1e-5;
  return c;
}

inline std::vector<OpCase> activated_product_cases(DType type) {
  std::vector<OpCase> cases;
  for (const auto& [rows, cols, depth] : {std::array<std::int64_t, 3>{1, 8, 8},
                                          {5, 200, 72},
                                          {130, 192, 64},
                                          {300, 392, 136},
                                          {3, 16, 4160},
                                          {17, 33, 19}}) {
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      for (const bool gated : {false, true}) {
        for (const std::int64_t padding : {0, 3, 8}) {
          const ActivatedProduct p{{rows, cols, activation, gated}, depth};
          cases.push_back(product_activate_case(type, p, true, padding));
          cases.push_back(product_activate_case(type, p, false, padding));
          for (const auto results : {ActivationResults::gradient, ActivationResults::both,
                                     ActivationResults::in_place}) {
            cases.push_back(product_activate_backward_case(type, p, results, padding));
          }
        }
      }
    }
  }
  return cases;
}

inline OpCase cross_entropy_case(DType out, std::int64_t rows, std::int64_t vocabulary,
                                 bool in_place, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("cross_entropy fp32>{} {}x{}{} pad{}", name_of(out), rows, vocabulary,
                       in_place ? " in place" : "", padding);
  c.operands = {{"dlogits", in_place ? Role::inout : Role::output, out, rows, vocabulary, padding},
                {"losses", Role::output, DType::f32, 1, rows},
                {"logits", Role::input, DType::f32, rows, vocabulary, padding, 3.0},
                {"targets", Role::input, DType::i32, 1, rows, 0, 0, 0, vocabulary}};
  c.run = [in_place](ModelOps& ops, Buffers& x) {
    for (std::size_t i = 1; i < x[3].ids().size(); i += 7) x[3].ids()[i] = -1;  // without a target
    ops.cross_entropy(x[0].view(), x[1].floats(), x[in_place ? 0 : 2].view(), x[3].ids(), 0.5f);
  };
  return c;
}

inline OpCase convert_case(DType in, DType out, std::int64_t rows, std::int64_t cols,
                           std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("convert {}>{} {}x{} pad{}", name_of(in), name_of(out), rows, cols, padding);
  c.operands = {{"dst", Role::output, out, rows, cols, padding},
                {"src", Role::input, in, rows, cols, padding}};
  c.run = [](ModelOps& ops, Buffers& x) { ops.convert(x[0].view(), x[1].view()); };
  c.tolerance = 0;
  return c;
}

}  // namespace ebb::kernels
