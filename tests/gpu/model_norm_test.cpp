// Norms of both kinds on a GPU, of whole rows and of their groups.
#include "gpu/model_ops_suite.h"

namespace ebb::kernels {
namespace {

class CudaNorms : public ModelOpsSuite {};

void add_norm_cases(std::vector<OpCase>& cases, DType t, const NormShape& s, std::int64_t pad) {
  const NormCall apart{.padding = pad}, in_place{.in_place = true, .padding = pad};
  cases.push_back(norm_case(t, s, apart));
  cases.push_back(norm_case(t, s, in_place));
  cases.push_back(norm_case(t, s, {.given = true, .padding = pad}));
  cases.push_back(norm_backward_case(t, t, s, apart));
  cases.push_back(norm_backward_case(t, t, s, in_place));
  cases.push_back(norm_backward_case(t, DType::f32, s, apart));
}

std::vector<OpCase> norm_cases(DType t) {
  std::vector<OpCase> cases;
  const LayerNorm rms{LayerNorm::Kind::rms, 1e-5f}, layer{LayerNorm::Kind::layer, 1e-5f};
  const LayerNorm offset{LayerNorm::Kind::rms, 1e-6f, 1.0f};
  for (const auto& [rows, cols] : kSizes) {
    add_norm_cases(cases, t, {rows, cols, rms}, cols % 4);
    add_norm_cases(cases, t, {rows, cols, offset}, cols % 4);
    add_norm_cases(cases, t, {rows, cols, layer}, cols % 4);
    add_norm_cases(cases, t, {rows, cols, layer, true}, cols % 4);
  }
  return cases;
}

// Groups that a warp takes (up to 256 columns) and such that a block takes; fewer and more than the
// warps of a block; runs of several rounds.
std::vector<OpCase> group_cases(DType t) {
  std::vector<OpCase> cases;
  const auto norm = [](LayerNorm::Kind kind, std::int64_t groups) {
    return LayerNorm{kind, 1e-6f, kind == LayerNorm::Kind::rms ? 1.0f : 0.0f, groups};
  };
  for (const LayerNorm::Kind kind : {LayerNorm::Kind::rms, LayerNorm::Kind::layer}) {
    const bool bias = kind == LayerNorm::Kind::layer;
    for (const std::int64_t width : {1, 7, 64, 100, 128, 256, 257, 320}) {
      for (const std::int64_t groups : {2, 3, 8, 17}) {
        for (const std::int64_t rows : {1, 5, 37}) {
          for (const std::int64_t pad : {0, 3}) {
            add_norm_cases(cases, t, {rows, width, norm(kind, groups), bias}, pad);
          }
        }
      }
    }
    add_norm_cases(cases, t, {2200, 64, norm(kind, 17), bias}, 0);
    add_norm_cases(cases, t, {300, 320, norm(kind, 8), bias}, 0);
  }
  return cases;
}

TEST_F(CudaNorms, NormsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : norm_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaNorms, NormsOfGroupsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : group_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
    }
  }
}

// The heads of a projection as a decoder has them: whole vectors, in place, some columns of rows
// that are wider; what lies beside them stays.
TEST_F(CudaNorms, NormsOfHeadsLeaveTheColumnsBesideThem) {
  constexpr std::int64_t before = 64, head_dim = 128, heads = 5, after = 24, rows = 133;
  const auto heads_of = [](Buffer& buffer) {
    View view = buffer.view();
    view.data = static_cast<std::byte*>(view.data) + before * size_of(view.type);
    view.cols = heads * head_dim;
    return view;
  };
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const LayerNorm::Kind kind : {LayerNorm::Kind::rms, LayerNorm::Kind::layer}) {
      const LayerNorm norm{kind, 1e-6f, 0.0f, heads};
      const std::int64_t cols = before + heads * head_dim + after;
      OpCase c;
      c.name = fmt::format("heads inside of rows {} {}", name_of(type), static_cast<int>(kind));
      c.operands = {{"qkv", Role::inout, type, rows, cols},
                    {"stats", Role::output, DType::f32, 1, norm.stats(rows)},
                    {"dqkv", Role::inout, type, rows, cols},
                    {"x", Role::input, type, rows, cols},
                    {"weight", Role::input, type, 1, head_dim},
                    {"dweight", Role::output, type, 1, head_dim}};
      c.run = [=](ModelOps& ops, Buffers& b) {
        ops.norm(heads_of(b[0]), b[1].floats(), false, heads_of(b[0]), b[4].data(), nullptr, norm);
        const NormGradients to{heads_of(b[2]), false, b[5].data(), nullptr, type};
        ops.norm_backward(to, heads_of(b[2]), heads_of(b[3]), b[1].floats(), b[4].data(), norm);
      };
      c.tolerance = 1e-3;
      ASSERT_NO_FATAL_FAILURE(expect_matches_reference(c));
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
