#include <fmt/format.h>

#include <cstring>

#include "base/thread_pool.h"
#include "ebb/error.h"
#include "gpu_test.h"
#include "kernels/adamw_cases.h"
#include "kernels/cuda/optimizer_ops.h"
#include "kernels/reference/optimizer_ops.h"

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
    ops_.bind_stream(*stream_);
    scale_ = gpu().allocate_device(sizeof(StepScale));
  }

  // On the GPU at the same distance from a 256-byte boundary as Array has it from its start.
  class Copy {
   public:
    Copy(GpuOptimizer& test, const Array& from)
        : test_(test), buffer_(test.gpu().allocate_device(size(from))) {
      upload(from);
    }
    void upload(const Array& from) {
      test_.stream_->copy_now(buffer_->data(), from.bytes().data(), size(from));
    }
    // `like` gives offset and size.
    void* data(Array& like) {
      return buffer_->data() + (static_cast<std::byte*>(like.data()) - like.bytes().data());
    }
    template <class T>
    T* as(Array& like) {
      return static_cast<T*>(data(like));
    }
    void download(Array& to) {
      auto* bytes = const_cast<std::byte*>(to.bytes().data());
      test_.stream_->copy_now(bytes, buffer_->data(), size(to));
    }

   private:
    static Bytes size(const Array& array) { return static_cast<Bytes>(array.bytes().size()); }
    GpuOptimizer& test_;
    std::unique_ptr<device::Buffer> buffer_;
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
    Copy weight(*this, found.weight), low(*this, found.low), first(*this, found.first),
        second(*this, found.second), gpu_gradient(*this, gradient);
    for (int step = 1; step <= steps; ++step) {
      gradient.fill(seed, 100 + static_cast<std::uint64_t>(step), 1e-2);
      const StepScale now{step % 3 == 0 ? 1.0f : 0.37f, 1};
      ReferenceOptimizerOps().adamw(expected.span(gradient), numbers(step), &now);
      gpu_gradient.upload(gradient);
      StateSpan span = found.span(gradient);
      span.weight = weight.data(found.weight);
      if (span.low != nullptr) span.low = low.as<std::int16_t>(found.low);
      span.first = first.as<float>(found.first);
      span.second = second.as<float>(found.second);
      span.gradient = gpu_gradient.data(gradient);
      const StepScale* on_gpu = scale(now);
      stream_->submit([&] { ops_.adamw(span, numbers(step), on_gpu); });
      stream_->synchronize();
      if (step % check_every != 0 && step != steps) continue;
      weight.download(found.weight);
      low.download(found.low);
      first.download(found.first);
      second.download(found.second);
      ASSERT_EQ(difference(expected, found), "")
          << fmt::format("{} weights, {} gradients, {} elements + {}, step {}, seed {}",
                         name_of(shape.weight_type), name_of(shape.gradient_type), shape.count,
                         shape.offset, step, seed);
    }
  }

  void run(const std::function<void()>& work) {
    stream_->submit(work);
    stream_->synchronize();
  }

  CudaOptimizerOps ops_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Buffer> scale_;
};

class GpuAdamW : public GpuOptimizer, public testing::WithParamInterface<std::tuple<DType, DType>> {
 protected:
  Shape shape(std::int64_t count, std::int64_t offset) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), count, offset};
  }
};

// The promise: the update is bit-identical on CPU and CUDA.
TEST_P(GpuAdamW, SmallSizesEqualTheReference) {
  for (std::int64_t count = 0; count <= 129; ++count) {
    const auto seed = static_cast<std::uint64_t>(count);
    compare(State(shape(count, count % 9), seed), 50, 10, seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GpuAdamW, EveryMisalignmentEqualsTheReference) {
  for (std::int64_t offset = 0; offset < 16; ++offset) {
    compare(State(shape(1031, offset), 5), 3, 1, 5);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GpuAdamW, MillionsOfNumbersEqualTheReferenceFor50Steps) {
  compare(State(shape(2097169, 0), 7), 50, 10, 7);
}

// Every pair of exponents of the two moments, denormals and infinities among them.
TEST_P(GpuAdamW, AllExponentsEqualTheReference) {
  State state(shape(1 << 16, 0), 9);
  const CounterRng rng(9, 50);
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const std::uint64_t bits = rng.bits(i);
    const auto low = static_cast<std::uint32_t>(bits);
    const auto high = static_cast<std::uint32_t>(bits >> 32);
    state.first.as<float>()[i] = std::bit_cast<float>((low & 0x807fffffu) | (i & 0xffu) << 23);
    state.second.as<float>()[i] = std::bit_cast<float>((high & 0x007fffffu) | (i >> 8) << 23);
  }
  compare(state, 2, 1, 9);
}

INSTANTIATE_TEST_SUITE_P(All, GpuAdamW,
                         testing::Combine(testing::Values(DType::bf16, DType::f32),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

// Planes whose misalignments do not agree leave no room for vectors.
TEST_F(GpuOptimizer, PlanesThatDisagreeInAlignmentEqualTheReference) {
  const std::int64_t count = 1003;
  State whole({DType::bf16, DType::bf16, count + 8, 0}, 11);
  State expected = whole;
  Array gradient(DType::bf16, count + 8, 0);
  gradient.fill(11, 100, 1e-2);
  const auto cut = [&](StateSpan span) {
    span.weight = static_cast<bf16*>(span.weight) + 1;
    span.low += 1;  // halves of one master belong together
    span.first += 3;
    span.gradient = static_cast<const bf16*>(span.gradient) + 5;
    span.count = count;
    return span;
  };
  const StepScale now{0.5f, 1};
  ReferenceOptimizerOps().adamw(cut(expected.span(gradient)), numbers(3), &now);
  Copy weight(*this, whole.weight), low(*this, whole.low), first(*this, whole.first),
      second(*this, whole.second), gpu_gradient(*this, gradient);
  StateSpan span = whole.span(gradient);
  span.weight = weight.data(whole.weight);
  span.low = low.as<std::int16_t>(whole.low);
  span.first = first.as<float>(whole.first);
  span.second = second.as<float>(whole.second);
  span.gradient = gpu_gradient.data(gradient);
  const StepScale* on_gpu = scale(now);
  run([&] { ops_.adamw(cut(span), numbers(3), on_gpu); });
  weight.download(whole.weight);
  low.download(whole.low);
  first.download(whole.first);
  second.download(whole.second);
  EXPECT_EQ(difference(expected, whole), "");
}

TEST_F(GpuOptimizer, ANormThatIsNotFiniteTouchesNothing) {
  const Shape shape{DType::bf16, DType::bf16, 40009, 1};
  State state(shape, 3);
  const State before = state;
  Array gradient(DType::bf16, shape.count, shape.offset);
  gradient.fill(3, 5, 1.0);
  Copy weight(*this, state.weight), low(*this, state.low), first(*this, state.first),
      second(*this, state.second), gpu_gradient(*this, gradient);
  StateSpan span = state.span(gradient);
  span.weight = weight.data(state.weight);
  span.low = low.as<std::int16_t>(state.low);
  span.first = first.as<float>(state.first);
  span.second = second.as<float>(state.second);
  span.gradient = gpu_gradient.data(gradient);
  const StepScale* on_gpu = scale({0.5f, 0});
  run([&] { ops_.adamw(span, numbers(1), on_gpu); });
  weight.download(state.weight);
  low.download(state.low);
  first.download(state.first);
  second.download(state.second);
  EXPECT_EQ(state.weight.bytes(), before.weight.bytes());
  EXPECT_EQ(state.low.bytes(), before.low.bytes());
  EXPECT_EQ(state.first.bytes(), before.first.bytes());
  EXPECT_EQ(state.second.bytes(), before.second.bytes());
}

// A weight that went to NaN is one to the model too, which sees the high half alone.
TEST_F(GpuOptimizer, ANanMasterHasANanHighHalf) {
  State state({DType::bf16, DType::f32, 8, 0}, 1);
  Array gradient(DType::f32, 8, 0);
  for (int i = 0; i < 8; ++i) gradient.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  Copy weight(*this, state.weight), low(*this, state.low), first(*this, state.first),
      second(*this, state.second), gpu_gradient(*this, gradient);
  StateSpan span = state.span(gradient);
  span.weight = weight.data(state.weight);
  span.low = low.as<std::int16_t>(state.low);
  span.first = first.as<float>(state.first);
  span.second = second.as<float>(state.second);
  span.gradient = gpu_gradient.data(gradient);
  const StepScale* on_gpu = scale({1.0f, 1});
  run([&] { ops_.adamw(span, numbers(1), on_gpu); });
  weight.download(state.weight);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isnan(state.weight.at(i))) << i;
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
      run([&] {
        ops_.add_gradient(sum.as<float>(found), gpu_gradient.data(gradient), type, count);
      });
      sum.download(found);
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
        run([&] {
          ops_.finish_gradient(gradient.data(found), type, gpu_sum.data(sum), sum_type, count);
        });
        gradient.download(found);
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
          type == DType::f32 ? values.as<float>()[i] = value
                             : (values.as<bf16>()[i] = to_bf16(value), 0.0f);
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
          ops_.square_sums(reinterpret_cast<double*>(partials->data()), on_gpu.data(values), type,
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

TEST_F(GpuOptimizer, RefusesTypesItDoesNotKnowAndCallsBeforeItIsBound) {
  StateSpan span;
  span.weight_type = DType::i32;
  EXPECT_THROW(ops_.adamw(span, numbers(1), nullptr), ConfigError);
  EXPECT_THROW(ops_.add_gradient(nullptr, nullptr, DType::i16, 0), ConfigError);
  EXPECT_THROW(CudaOptimizerOps().add_gradient(nullptr, nullptr, DType::f32, 1), DeviceError);
}

}  // namespace
}  // namespace ebb::kernels
