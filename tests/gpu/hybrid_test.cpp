// The optimizer library on a GPU: every placement gives the bits of the reference on the CPU, and
// keeps its order with the caller's stream when either side is late.
#include <fmt/format.h>

#include "device/cuda/cuda_stream.h"
#include "ebb/error.h"
#include "gpu_test.h"
#include "hybrid/hand_run.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::hybrid {
namespace {

class GpuHybrid : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    stream_ = gpu().create_stream(device::StreamKind::compute, "caller");
  }
  void* handle() { return static_cast<device::CudaStream&>(*stream_).handle(); }

  // A loop's tensors on the GPU, moved by the caller's stream alone.
  struct Mirror {
    Mirror(GpuHybrid& test, Loop& loop) : test(test), loop(loop) {
      for (Tensor& t : loop.tensors) {
        const auto weight_bytes = static_cast<Bytes>(t.weight.size());
        const auto gradient_bytes = static_cast<Bytes>(t.gradient.size());
        weights.push_back(test.gpu().allocate_device(weight_bytes));
        gradients.push_back(test.gpu().allocate_device(gradient_bytes));
        pinned_weights.push_back(test.gpu().allocate_host(weight_bytes));
        pinned_gradients.push_back(test.gpu().allocate_host(gradient_bytes));
        test.stream_->copy_now(weights.back()->data(), t.weight.data(), weight_bytes);
      }
    }
    std::vector<HybridOptimizer::Parameter> parameters() {
      auto all = loop.parameters();
      for (std::size_t t = 0; t < all.size(); ++t) {
        all[t].weight = weights[t]->data();
        all[t].gradient = gradients[t]->data();
      }
      return all;
    }
    // A step whose gradients come late on the caller's stream, which then waits for every weight,
    // takes a copy of it and spoils the gradient.
    HybridOptimizer::StepReport step(Optimizer& optimizer, std::int64_t number, bool late) {
      device::Stream& stream = *test.stream_;
      stream.synchronize();
      for (std::size_t t = loop.tensors.size(); t-- > 0;) {
        loop.make_gradient(t, number);
        const std::vector<std::byte>& made = loop.tensors[t].gradient;
        std::copy(made.begin(), made.end(), pinned_gradients[t]->data());
        stream.submit([&] {
          if (late) stream.pause(1000);
          stream.copy(gradients[t]->data(), pinned_gradients[t]->data(),
                      pinned_gradients[t]->bytes());
        });
        optimizer.gradient_ready(static_cast<std::int64_t>(t), test.handle());
      }
      const auto report = optimizer.step(rate_of(number), kClip, test.handle());
      for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
        optimizer.wait_for_weight(static_cast<std::int64_t>(t), test.handle());
        stream.submit([&] {
          stream.copy(pinned_weights[t]->data(), weights[t]->data(), weights[t]->bytes());
          stream.fill(gradients[t]->data(), 0x7f, gradients[t]->bytes());
        });
      }
      return report;
    }
    std::vector<std::byte> seen_weight(std::size_t t) {
      test.stream_->synchronize();
      return {pinned_weights[t]->data(), pinned_weights[t]->data() + pinned_weights[t]->bytes()};
    }

    GpuHybrid& test;
    Loop& loop;
    std::vector<std::unique_ptr<device::Buffer>> weights, gradients;
    std::vector<std::unique_ptr<device::Buffer>> pinned_weights, pinned_gradients;
  };

  static std::vector<Settings> placements() {
    std::vector<Settings> all;
    const auto add = [&](const char* states, std::optional<double> offload,
                         std::optional<double> host, std::int64_t chunk) {
      Settings s;
      s.device = "cuda";
      s.states = states;
      s.offload_fraction = offload;
      s.host_fraction = host;
      s.chunk_parameters = chunk;
      s.seed = 11;
      all.push_back(s);
    };
    add("resident", {}, {}, 8192);
    add("stream", {}, {}, 4096);
    add("stream", {}, {}, 1 << 20);
    add("host", {}, {}, 4096);
    add("stream", 0.8, 0.4, 4096);
    return all;
  }

  void compare(const states::Rule& rule, const std::string& name, const std::string& format,
               const std::vector<TensorShape>& shapes, Settings settings, int steps,
               std::uint64_t slow_lanes_seed) {
    settings.rule.name = name;
    settings.state_format = format;
    const std::string what = fmt::format("{} {} at {} of {}, chunks of {}, seed {}", name, format,
                                         settings.states, settings.offload_fraction.value_or(-1),
                                         settings.chunk_parameters, slow_lanes_seed);
    Loop by_hand(shapes);
    HandRun expected(by_hand, rule, states::parse_state_format(format), settings.seed);
    Loop loop(shapes);
    Mirror mirror(*this, loop);
    Optimizer optimizer(settings, mirror.parameters(), handle(), slow_lanes_seed);
    for (std::int64_t step = 1; step <= steps; ++step) {
      const states::GradientNorm norm = expected.step(step);
      const auto report = mirror.step(optimizer, step, slow_lanes_seed != 0);
      ASSERT_EQ(report.norm, norm.value) << what << ", step " << step;
      for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
        ASSERT_EQ(mirror.seen_weight(t), by_hand.tensors[t].weight)
            << what << ", step " << step << ", " << loop.tensors[t].shape.name;
      }
    }
    expect_equal(optimizer, expected, by_hand, what);
  }

  std::unique_ptr<device::Stream> stream_;
};

TEST_F(GpuHybrid, EveryPlacementGivesTheBitsOfTheReference) {
  for (const std::string format : {"exact", "bf16", "int8"}) {
    for (const Settings& settings : placements()) {
      compare(states::AdamW{}, "adamw", format, small_shapes(), settings, 4, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuHybrid, LateLanesAndALateCallerChangeNothing) {
  for (const std::uint64_t seed : {1, 2}) {
    for (const Settings& settings : placements()) {
      compare(states::AdamW{}, "adamw", "exact", small_shapes(), settings, 3, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuHybrid, OtherRulesAndTypes) {
  const auto shapes = small_shapes(Type::fp32, Type::fp32);
  for (const Settings& settings : placements()) {
    compare(states::Adam{}, "adam", "exact", shapes, settings, 2, 0);
    compare(states::Lion{}, "lion", "exact", shapes, settings, 2, 0);
    compare(states::Sgd{}, "sgd", "exact", shapes, settings, 2, 0);
    compare(states::Adagrad{}, "adagrad", "exact", shapes, settings, 2, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuHybrid, AStateSavedOnTheGpuGoesOnAnywhere) {
  const io::TempFolder folder;
  io::PosixFileSystem files;
  for (const Settings& settings : placements()) {
    Loop loop(small_shapes());
    Mirror mirror(*this, loop);
    Optimizer optimizer(settings, mirror.parameters(), handle());
    for (std::int64_t step = 1; step <= 2; ++step) mirror.step(optimizer, step, false);
    optimizer.save(files, folder / "state");
    Settings on_cpu = settings;
    on_cpu.device = "cpu";
    Loop there(small_shapes(), 99);
    Optimizer other(on_cpu, there.parameters(), nullptr);
    other.load(files, folder / "state", nullptr);
    there.seed = loop.seed;
    mirror.step(optimizer, 3, false);
    step_once(other, there, 3);
    EXPECT_EQ(optimizer.store().weights_digest(), other.store().weights_digest());
    EXPECT_EQ(optimizer.store().stored_moments_digest(), other.store().stored_moments_digest());

    // And back: the weights on the GPU are the file's.
    other.save(files, folder / "state");
    Loop back(small_shapes(), 123);
    Mirror back_mirror(*this, back);
    Optimizer again(settings, back_mirror.parameters(), handle());
    again.load(files, folder / "state", handle());
    EXPECT_EQ(again.store().weights_digest(), other.store().weights_digest());
  }
}

TEST_F(GpuHybrid, WeightsThatChangedOnTheStreamAreTheMasters) {
  for (const Settings& settings : placements()) {
    Loop loop(small_shapes());
    Mirror mirror(*this, loop);
    Optimizer optimizer(settings, mirror.parameters(), handle());
    mirror.step(optimizer, 1, false);
    Loop loaded(small_shapes(), 99);
    stream_->synchronize();
    for (std::size_t t = 0; t < loaded.tensors.size(); ++t) {
      const std::vector<std::byte>& weight = loaded.tensors[t].weight;
      std::copy(weight.begin(), weight.end(), mirror.pinned_weights[t]->data());
    }
    stream_->submit([&] {
      stream_->pause(2000);
      for (std::size_t t = 0; t < loaded.tensors.size(); ++t) {
        stream_->copy(mirror.weights[t]->data(), mirror.pinned_weights[t]->data(),
                      mirror.weights[t]->bytes());
      }
    });
    optimizer.weights_changed(handle());
    Settings on_cpu = settings;
    on_cpu.device = "cpu";
    Optimizer expected(on_cpu, loaded.parameters(), nullptr);
    EXPECT_EQ(optimizer.store().weights_digest(), expected.store().weights_digest())
        << settings.states;
  }
}

TEST_F(GpuHybrid, HostMemoryIsRefused) {
  Loop loop(small_shapes());
  Mirror mirror(*this, loop);
  auto parameters = mirror.parameters();
  parameters[2].weight = loop.tensors[2].weight.data();
  Settings settings = placements()[1];
  EXPECT_THROW(Optimizer(settings, parameters, handle()), ConfigError);
  parameters = mirror.parameters();
  parameters[2].gradient = loop.tensors[2].gradient.data();
  Optimizer optimizer(settings, parameters, handle());
  EXPECT_THROW(optimizer.gradient_ready(2, handle()), ConfigError);
  optimizer.set_gradient(2, mirror.gradients[2]->data());
  mirror.step(optimizer, 1, false);
}

}  // namespace
}  // namespace ebb::hybrid
