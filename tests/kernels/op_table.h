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

inline OpCase embed_case(DType type, std::int64_t rows, std::int64_t cols, std::int64_t vocabulary,
                         std::int64_t padding) {
  OpCase c;
  c.name =
      fmt::format("embed {} {}x{} of {} pad{}", name_of(type), rows, cols, vocabulary, padding);
  c.operands = {{"out", Role::output, type, rows, cols, padding},
                {"table", Role::input, type, vocabulary, cols, padding},
                {"ids", Role::input, DType::i32, 1, rows, 0, 0, 0, vocabulary}};
  c.run = [](ModelOps& ops, Buffers& x) { ops.embed(x[0].view(), x[1].view(), x[2].ids()); };
  c.tolerance = 0;
  return c;
}

inline OpCase embed_backward_case(DType type, std::int64_t rows, std::int64_t cols,
                                  std::int64_t vocabulary, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("embed_backward {} {}x{} of {} pad{}", name_of(type), rows, cols, vocabulary,
                       padding);
  c.operands = {{"sums", Role::inout, DType::f32, vocabulary, cols, padding},
                {"dy", Role::input, type, rows, cols, padding},
                {"ids", Role::input, DType::i32, 1, rows, 0, 0, 0, vocabulary}};
  c.run = [](ModelOps& ops, Buffers& x) {
    ops.embed_backward(x[0].view(), x[1].view(), x[2].ids());
  };
  return c;
}

inline OpCase rms_norm_case(DType type, std::int64_t rows, std::int64_t cols, bool given,
                            std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("rms_norm {} {}x{}{} pad{}", name_of(type), rows, cols,
                       given ? " given" : "", padding);
  c.operands = {{"y", Role::output, type, rows, cols, padding},
                {"rstd", given ? Role::input : Role::output, DType::f32, 1, rows},
                {"x", Role::input, type, rows, cols, padding},
                {"weight", Role::input, type, 1, cols}};
  c.run = [given](ModelOps& ops, Buffers& x) {
    ops.rms_norm(x[0].view(), x[1].floats(), given, x[2].view(), x[3].data(), 1e-5f);
  };
  return c;
}

inline OpCase rms_norm_backward_case(DType type, DType out, std::int64_t rows, std::int64_t cols,
                                     std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("rms_norm_backward {}>{} {}x{} pad{}", name_of(type), name_of(out), rows,
                       cols, padding);
  c.operands = {{"dx", Role::inout, type, rows, cols, padding},
                {"dweight", Role::output, out, 1, cols},
                {"dy", Role::input, type, rows, cols, padding},
                {"x", Role::input, type, rows, cols, padding},
                {"rstd", Role::input, DType::f32, 1, rows, 0, 0.1, 1.0},
                {"weight", Role::input, type, 1, cols}};
  c.run = [out](ModelOps& ops, Buffers& x) {
    ops.rms_norm_backward(x[0].view(), x[1].data(), out, x[2].view(), x[3].view(), x[4].floats(),
                          x[5].data());
  };
  c.tolerance = 1e-5 + 1e-6 * static_cast<double>(rows);
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
  return fmt::format("b{} q{} k{} h{}/{} d{}", s.batch, s.queries, s.keys, s.heads, s.kv_heads,
                     s.head_dim);
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

inline OpCase swiglu_case(DType type, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("swiglu {} {}x{} pad{}", name_of(type), rows, cols, padding);
  c.operands = {{"h", Role::output, type, rows, cols, padding},
                {"gate_up", Role::input, type, rows, 2 * cols, padding, 4.0}};
  c.run = [](ModelOps& ops, Buffers& x) { ops.swiglu(x[0].view(), x[1].view()); };
  return c;
}

inline OpCase swiglu_backward_case(DType type, std::int64_t rows, std::int64_t cols, bool in_place,
                                   std::int64_t padding) {
  OpCase c;
  c.name = fmt::format("swiglu_backward {} {}x{}{} pad{}", name_of(type), rows, cols,
                       in_place ? " in place" : "", padding);
  c.operands = {{"dgate_up", in_place ? Role::inout : Role::output, type, rows, 2 * cols, padding},
                {"dh", Role::input, type, rows, cols, padding},
                {"gate_up", Role::input, type, rows, 2 * cols, padding, 4.0}};
  c.run = [in_place](ModelOps& ops, Buffers& x) {
    ops.swiglu_backward(x[0].view(), x[1].view(), x[in_place ? 0 : 2].view());
  };
  return c;
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
    if (x[3].ids().size() > 1) x[3].ids()[1] = -1;  // a position without a target
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
