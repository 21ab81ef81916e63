#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <optional>

#include "base/thread_pool.h"
#include "ebb/error.h"
#include "gpu_test.h"
#include "kernels/cuda/optimizer_ops.h"
#include "kernels/reference/optimizer_ops.h"
#include "kernels/update_cases.h"

namespace ebb::kernels {
namespace {

using namespace optimizer_cases;

// Planes on the GPU, copied there and back whole, guards included.
class GpuOptimizer : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    stream_ = gpu().create_stream(device::StreamKind::compute, "compute");
    ops_.emplace(ExecutionContext{.stream = stream_.get()});
    scale_ = gpu().allocate_device(sizeof(StepScale));
  }

  // A plane on the GPU at the same distance from a 256-byte boundary as it has from its start here;
  // guards go with it. The plane outlives the copy.
  class Copy {
   public:
    Copy(GpuOptimizer& test, Array& from)
        : Copy(test, const_cast<std::byte*>(from.bytes().data()), from.bytes().size(),
               static_cast<std::byte*>(from.data()) - from.bytes().data()) {}
    Copy(GpuOptimizer& test, Codes& from)
        : Copy(test, from.bytes.data(), from.bytes.size(), from.offset) {}

    void upload() { test_.stream_->copy_now(buffer_->data(), here_, size_); }
    void download() { test_.stream_->copy_now(here_, buffer_->data(), size_); }
    void* data() { return buffer_->data() + offset_; }
    template <class T>
    T* as() {
      return static_cast<T*>(data());
    }

   private:
    Copy(GpuOptimizer& test, void* here, std::size_t size, std::ptrdiff_t offset)
        : test_(test),
          here_(here),
          size_(static_cast<Bytes>(size)),
          offset_(offset),
          buffer_(test.gpu().allocate_device(size_)) {
      upload();
    }

    GpuOptimizer& test_;
    void* here_;
    Bytes size_;
    std::ptrdiff_t offset_;
    std::unique_ptr<device::Buffer> buffer_;
  };

  // A state and its gradient, there and back.
  struct Mirror {
    Mirror(GpuOptimizer& test, State& state, Array& gradient)
        : state(state),
          here(gradient),
          gradient(test, gradient),
          weight(test, state.weight),
          low(test, state.low),
          first(test, state.first),
          second(test, state.second),
          first_codes(test, state.first_codes),
          second_codes(test, state.second_codes),
          scales(test, state.scales) {}

    StateSpan span() {
      StateSpan span = state.span(here);
      const bool coded = state.coded();
      span.weight = weight.data();
      if (span.low != nullptr) span.low = low.as<std::int16_t>();
      span.first = coded ? first_codes.data() : first.data();
      if (span.second != nullptr) span.second = coded ? second_codes.data() : second.data();
      if (coded) span.scales = scales.as<std::uint8_t>();
      span.gradient = gradient.data();
      return span;
    }
    void download() {
      for (Copy* plane : {&weight, &low, &first, &second, &first_codes, &second_codes, &scales}) {
        plane->download();
      }
    }

    State& state;
    Array& here;
    Copy gradient, weight, low, first, second, first_codes, second_codes, scales;
  };

  const StepScale* scale(const StepScale& value) {
    stream_->copy_now(scale_->data(), &value, sizeof value);
    return reinterpret_cast<const StepScale*>(scale_->data());
  }

  // Steps the reference and a state that stays on the GPU; compares after the steps in
  // `check_every`.
  void compare(State expected, int steps, int check_every, std::uint64_t seed) {
    const Shape shape = expected.shape;
    State found = expected;
    Array gradient(shape.gradient_type, shape.count, shape.offset);
    Mirror mirror(*this, found, gradient);
    for (int step = 1; step <= steps; ++step) {
      fill(gradient, shape.numbers, seed, 100 + static_cast<std::uint64_t>(step), 1e-2);
      const StepScale now{step % 3 == 0 ? 1.0f : 0.37f, 1};
      const Step numbers = shape.kind.numbers(step);
      ReferenceOptimizerOps().update(expected.span(gradient), numbers, &now);
      mirror.gradient.upload();
      const StepScale* on_gpu = scale(now);
      run([&] { ops_->update(mirror.span(), numbers, on_gpu); });
      if (step % check_every != 0 && step != steps) continue;
      mirror.download();
      ASSERT_EQ(difference(expected, found), "")
          << fmt::format("{}, step {}, seed {}", shape.text(), step, seed);
    }
  }

  void run(const std::function<void()>& work) {
    stream_->submit(work);
    stream_->synchronize();
  }

  std::optional<CudaOptimizerOps> ops_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Buffer> scale_;
};

class GpuUpdates : public GpuOptimizer,
                   public testing::WithParamInterface<std::tuple<Kind, DType, DType>> {
 protected:
  Shape shape(std::int64_t count, std::int64_t offset, Numbers numbers) const {
    const auto& [kind, weight, gradient] = GetParam();
    return {kind, weight, gradient, count, offset, numbers};
  }
};

// The promise: the update is bit-identical on CPU and CUDA.
TEST_P(GpuUpdates, SmallSizesEqualTheReference) {
  for (std::int64_t count = 0; count <= 129; ++count) {
    const auto seed = static_cast<std::uint64_t>(count);
    const Numbers numbers = count % 3 == 0 ? Numbers::any : Numbers::tame;
    compare(State(shape(count, count % 9, numbers), seed), 50, 10, seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GpuUpdates, EveryMisalignmentEqualsTheReference) {
  for (std::int64_t offset = 0; offset < 16; ++offset) {
    for (const Numbers numbers : {Numbers::any, Numbers::tame}) {
      compare(State(shape(1031, offset, numbers), 5), 3, 1, 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(GpuUpdates, ManyNumbersEqualTheReferenceFor50Steps) {
  for (const Numbers numbers : {Numbers::any, Numbers::tame}) {
    compare(State(shape(262147, 0, numbers), 7), 50, 10, 7);
    if (HasFatalFailure()) return;
  }
}

// Every pair of exponents of the two moments, denormals and infinities among them.
TEST_P(GpuUpdates, AllExponentsEqualTheReference) {
  State state(shape(1 << 16, 0, Numbers::tame), 9);
  if (state.coded()) GTEST_SKIP() << "its moments have no exponents of their own";
  const CounterRng rng(9, 50);
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const std::uint64_t bits = rng.bits(i);
    const auto low = static_cast<std::uint32_t>(bits);
    const auto high = static_cast<std::uint32_t>(bits >> 32);
    state.first.set(i, std::bit_cast<float>((low & 0x807fffffu) | (i & 0xffu) << 23));
    state.second.set(i, std::bit_cast<float>((high & 0x007fffffu) | (i >> 8) << 23));
  }
  compare(state, 2, 1, 9);
}

INSTANTIATE_TEST_SUITE_P(All, GpuUpdates,
                         testing::Combine(testing::ValuesIn(kinds()),
                                          testing::Values(DType::bf16, DType::f32),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", std::get<0>(info.param).name,
                                              name_of(std::get<1>(info.param)),
                                              name_of(std::get<2>(info.param)));
                         });

// Planes whose misalignments do not agree leave no room for vectors.
TEST_F(GpuOptimizer, PlanesThatDisagreeInAlignmentEqualTheReference) {
  const std::int64_t count = 1003;
  for (const Kind& kind : {kinds()[0], kinds()[1], kinds()[2]}) {
    State found({kind, DType::bf16, DType::bf16, count + 8, 0, Numbers::tame}, 11);
    State expected = found;
    Array gradient(DType::bf16, count + 8, 0);
    fill(gradient, Numbers::tame, 11, 100, 1e-2);
    const auto cut = [&](StateSpan span) {
      span.weight = static_cast<bf16*>(span.weight) + 1;
      span.low += 1;  // halves of one master belong together
      span.first = static_cast<std::byte*>(span.first) + 3 * moment_bytes(span.format);
      span.gradient = static_cast<const bf16*>(span.gradient) + 5;
      span.count = count;
      return span;
    };
    const StepScale now{0.5f, 1};
    const Step numbers = kind.numbers(3);
    ReferenceOptimizerOps().update(cut(expected.span(gradient)), numbers, &now);
    Mirror mirror(*this, found, gradient);
    const StepScale* on_gpu = scale(now);
    run([&] { ops_->update(cut(mirror.span()), numbers, on_gpu); });
    mirror.download();
    EXPECT_EQ(difference(expected, found), "") << kind.name;
  }
}

// Kinds that differ, more of one kind than a launch takes, and empty spans among them.
TEST_F(GpuOptimizer, ManySpansInOneCallEqualTheReferenceOneByOne) {
  const std::vector<Shape> shapes = mixed_shapes();
  std::deque<State> expected, found;
  std::deque<Array> gradients;
  std::deque<Mirror> mirrors;
  std::vector<SpanUpdate> updates;
  const StepScale now{0.37f, 1};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = shapes[i];
    expected.emplace_back(shape, i);
    found.emplace_back(shape, i);
    Array& gradient = gradients.emplace_back(shape.gradient_type, shape.count, shape.offset);
    fill(gradient, shape.numbers, i, 100, 1e-2);
    StateSpan here = expected.back().span(gradient);
    here.tensor_key = i;
    ReferenceOptimizerOps().update(here, mixed_step(shape, i), &now);
    StateSpan there = mirrors.emplace_back(*this, found.back(), gradient).span();
    there.tensor_key = i;
    updates.push_back({there, mixed_step(shape, i)});
  }
  const StepScale* on_gpu = scale(now);
  run([&] { ops_->update_spans(updates, on_gpu); });
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    mirrors[i].download();
    ASSERT_EQ(difference(expected[i], found[i]), "") << "span " << i << ": " << shapes[i].text();
  }
}

TEST_F(GpuOptimizer, ANormThatIsNotFiniteTouchesNothing) {
  for (const Kind& kind : kinds()) {
    State state({kind, DType::bf16, DType::bf16, 40009, 1}, 3);
    const State before = state;
    Array gradient(DType::bf16, 40009, 1);
    gradient.fill(3, 5, 1.0);
    Mirror mirror(*this, state, gradient);
    const StepScale* on_gpu = scale({0.5f, 0});
    run([&] { ops_->update(mirror.span(), kind.numbers(1), on_gpu); });
    mirror.download();
    EXPECT_EQ(state.weight.bytes(), before.weight.bytes()) << kind.name;
    EXPECT_EQ(state.low.bytes(), before.low.bytes()) << kind.name;
    EXPECT_EQ(state.first.bytes(), before.first.bytes()) << kind.name;
    EXPECT_EQ(state.second.bytes(), before.second.bytes()) << kind.name;
    EXPECT_EQ(state.first_codes.bytes, before.first_codes.bytes) << kind.name;
    EXPECT_EQ(state.second_codes.bytes, before.second_codes.bytes) << kind.name;
    EXPECT_EQ(state.scales.bytes, before.scales.bytes) << kind.name;
  }
}

// A weight that went to NaN is one to the model too, which sees the high half alone.
TEST_F(GpuOptimizer, ANanMasterHasANanHighHalf) {
  for (const Kind& kind : kinds()) {
    State state({kind, DType::bf16, DType::f32, 8, 0}, 1);
    Array gradient(DType::f32, 8, 0);
    for (int i = 0; i < 8; ++i) gradient.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
    Mirror mirror(*this, state, gradient);
    const StepScale* on_gpu = scale({1.0f, 1});
    run([&] { ops_->update(mirror.span(), kind.numbers(1), on_gpu); });
    mirror.download();
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(std::isnan(state.weight.at(i))) << kind.name << ", " << i;
    }
  }
}

std::string difference(const Array& expected, const Array& found) {
  for (std::int64_t i = 0; i < expected.whole(); ++i) {
    if (same_number(expected.at(i), found.at(i))) continue;
    return fmt::format("element {} of the guarded array: expected {} ({:08x}), found {} ({:08x})",
                       i, expected.at(i), std::bit_cast<std::uint32_t>(expected.at(i)), found.at(i),
                       std::bit_cast<std::uint32_t>(found.at(i)));
  }
  return "";
}

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> result;
  for (std::int64_t count = 0; count <= 129; ++count) result.push_back(count);
  for (const std::int64_t prime : {4093, 4096, 4099, 32771, 131101, 1048583}) {
    result.push_back(prime);
  }
  return result;
}

TEST_F(GpuOptimizer, SumsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      const auto seed = static_cast<std::uint64_t>(count);
      Array gradient(type, count, count % 5);
      gradient.fill(seed, 1, 1.0);
      Array expected(DType::f32, count, count % 7);
      expected.fill(seed, 2, 1.0);
      Array found = expected;
      Copy gpu_gradient(*this, gradient), sum(*this, found);
      ReferenceOptimizerOps().add_gradient(expected.as<float>(), gradient.data(), type, count);
      run([&] { ops_->add_gradient(sum.as<float>(), gpu_gradient.data(), type, count); });
      sum.download();
      ASSERT_EQ(difference(expected, found), "") << name_of(type) << ", " << count << " elements";
    }
  }
}

TEST_F(GpuOptimizer, SumsOfTheFirstTwoEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      const auto seed = static_cast<std::uint64_t>(count);
      Array first(type, count, count % 5), second(type, count, count % 3);
      first.fill(seed, 1, 1.0);
      second.fill(seed, 2, 1.0);
      Array expected(DType::f32, count, count % 7);
      expected.fill(seed, 3, 1.0);
      Array found = expected;
      Copy a(*this, first), b(*this, second), sum(*this, found);
      ReferenceOptimizerOps().add_two_gradients(expected.as<float>(), first.data(), second.data(),
                                                type, count);
      run([&] { ops_->add_two_gradients(sum.as<float>(), a.data(), b.data(), type, count); });
      sum.download();
      ASSERT_EQ(difference(expected, found), "") << name_of(type) << ", " << count << " elements";
    }
  }
}

TEST_F(GpuOptimizer, FinishedGradientsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const DType sum_type : {DType::bf16, DType::f32}) {
      for (const std::int64_t count : sizes()) {
        const auto seed = static_cast<std::uint64_t>(count);
        Array sum(sum_type, count, count % 5);
        sum.fill(seed, 1, 1.0);
        Array expected(type, count, count % 7);
        expected.fill(seed, 2, 1.0);
        Array found = expected;
        Copy gpu_sum(*this, sum), gradient(*this, found);
        ReferenceOptimizerOps().finish_gradient(expected.data(), type, sum.data(), sum_type, count);
        run([&] { ops_->finish_gradient(gradient.data(), type, gpu_sum.data(), sum_type, count); });
        gradient.download();
        ASSERT_EQ(difference(expected, found), "")
            << name_of(type) << ", sum " << name_of(sum_type) << ", " << count << " elements";
      }
    }
  }
}

TEST_F(GpuOptimizer, SquareSumsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const std::int64_t count : sizes()) {
      for (const bool tame : {false, true}) {
        Array values(type, count, count % 5);
        values.fill(static_cast<std::uint64_t>(count), 1, 1.0);
        // Finite ones too: a single NaN would hide all else of its block.
        const CounterRng rng(static_cast<std::uint64_t>(count), 2);
        for (std::int64_t i = 0; tame && i < count; ++i) {
          const auto value = static_cast<float>(rng.normal(static_cast<std::uint64_t>(i)));
          values.set(i + count % 5, value);
        }
        const auto blocks = static_cast<std::size_t>(norm_blocks(count));
        std::vector<double> expected(blocks + 1, -1.0);
        std::vector<double> found = expected;
        const auto bytes = static_cast<Bytes>(found.size() * sizeof(double));
        Copy on_gpu(*this, values);
        const auto partials = gpu().allocate_device(bytes);
        stream_->copy_now(partials->data(), found.data(), bytes);
        ReferenceOptimizerOps().square_sums(expected.data(), values.data(), type, count);
        run([&] {
          ops_->square_sums(reinterpret_cast<double*>(partials->data()), on_gpu.data(), type,
                            count);
        });
        stream_->copy_now(found.data(), partials->data(), bytes);
        for (std::size_t i = 0; i <= blocks; ++i) {
          ASSERT_TRUE(same_number(expected[i], found[i]))
              << name_of(type) << ", " << count << " elements, partial " << i << ": expected "
              << expected[i] << ", found " << found[i];
        }
      }
    }
  }
}

// More parts than one launch takes: empty ones, whole and cut norm blocks, on a boundary of vectors
// and beside it, with a sum and without.
TEST_F(GpuOptimizer, FinishedPartsEqualTheReference) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (const DType sum_type : {DType::bf16, DType::f32}) {
      std::deque<Array> sums, expected, found;
      std::deque<Copy> gpu_sums, gradients;
      std::vector<double> squares, gpu_squares;
      std::vector<GradientPart> parts, gpu_parts;
      const std::int64_t counts[] = {5, 0, kNormBlock, 3 * kNormBlock + 17, 2 * kNormBlock, 127};
      std::int64_t blocks = 0;
      for (std::uint64_t p = 0; p < 70; ++p) {
        const std::int64_t count = counts[p % 6], offset = p % 5 == 4 ? 3 : 0;
        sums.emplace_back(sum_type, count, p % 7 == 6 ? 1 : 0).fill(p, 1, 1.0);
        Array& start = expected.emplace_back(type, count, offset);
        const CounterRng rng(p, 2);
        if (p % 2 == 0) start.fill(p, 2, 1.0);
        for (std::int64_t i = 0; p % 2 == 1 && i < count + offset; ++i) {
          start.set(i, static_cast<float>(rng.normal(static_cast<std::uint64_t>(i))));
        }
        found.push_back(start);
        gpu_sums.emplace_back(*this, sums.back());
        gradients.emplace_back(*this, found.back());
        const bool summed = p % 3 != 0;
        parts.push_back({start.data(), summed ? sums.back().data() : nullptr, nullptr, count});
        gpu_parts.push_back(
            {gradients.back().data(), summed ? gpu_sums.back().data() : nullptr, nullptr, count});
        blocks += norm_blocks(count);
      }
      squares.assign(static_cast<std::size_t>(blocks + 1), -1.0);
      gpu_squares = squares;
      const auto bytes = static_cast<Bytes>(squares.size() * sizeof(double));
      const auto partials = gpu().allocate_device(bytes);
      stream_->copy_now(partials->data(), squares.data(), bytes);
      std::int64_t first = 0;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        parts[p].partials = squares.data() + first;
        gpu_parts[p].partials = reinterpret_cast<double*>(partials->data()) + first;
        first += norm_blocks(parts[p].count);
      }
      ReferenceOptimizerOps().finish_parts(parts, type, sum_type);
      run([&] { ops_->finish_parts(gpu_parts, type, sum_type); });
      stream_->copy_now(gpu_squares.data(), partials->data(), bytes);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        gradients[p].download();
        ASSERT_EQ(difference(expected[p], found[p]), "")
            << name_of(type) << ", sum " << name_of(sum_type) << ", part " << p;
      }
      for (std::size_t i = 0; i < squares.size(); ++i) {
        ASSERT_TRUE(same_number(squares[i], gpu_squares[i]))
            << name_of(type) << ", sum " << name_of(sum_type) << ", partial " << i << ": expected "
            << squares[i] << ", found " << gpu_squares[i];
      }
    }
  }
}

TEST_F(GpuOptimizer, RefusesTypesItDoesNotKnowAndContextsWithoutAStream) {
  StateSpan span;
  span.weight_type = DType::i32;
  EXPECT_THROW(ops_->update(span, AdamWStep{}, nullptr), ConfigError);
  EXPECT_THROW(ops_->add_gradient(nullptr, nullptr, DType::i16, 0), ConfigError);
  EXPECT_THROW(CudaOptimizerOps(ExecutionContext{}), Error);
}

}  // namespace
}  // namespace ebb::kernels
