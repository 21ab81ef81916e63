// What callers may do, what they are told when they do something else, and what their weights are
// afterwards.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "ebb/error.h"
#include "hand_run.h"

namespace ebb::hybrid {
namespace {

Settings settings_of(const std::string& states, std::int64_t chunk = 4096) {
  Settings s;
  s.states = states;
  s.chunk_parameters = chunk;
  s.threads = 2;
  return s;
}

// The text of the error that `call` throws, or what went otherwise.
template <class Expected>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

#define EXPECT_REFUSED(Expected, part, call)                                 \
  EXPECT_NE(error_of<Expected>([&] { call; }).find(part), std::string::npos) \
      << error_of<Expected>([&] { call; })

std::string refusal(const Settings& settings, std::vector<HybridOptimizer::Parameter> parameters) {
  return error_of<ConfigError>([&] { Optimizer(settings, parameters, nullptr); });
}

TEST(Registration, RefusesWhatCannotBeRight) {
  Loop loop(small_shapes());
  const Settings s = settings_of("stream");
  const auto with = [&](const std::function<void(std::vector<HybridOptimizer::Parameter>&)>& bad) {
    auto parameters = loop.parameters();
    bad(parameters);
    return refusal(s, parameters);
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(with([](auto& all) { all.clear(); }), "empty");
  contains(with([](auto& all) { all[2].name = ""; }), "no name");
  contains(with([](auto& all) { all[2].name = all[0].name; }), "two of that name");
  contains(with([](auto& all) { all[2].name = "\xff"; }), "UTF-8");
  contains(with([](auto& all) { all[2].count = 0; }), "0 elements");
  contains(with([](auto& all) { all[2].count = -5; }), "-5 elements");
  contains(with([](auto& all) { all[2].count = std::numeric_limits<std::int64_t>::max(); }),
           "elements");
  contains(with([](auto& all) { all[2].weight = nullptr; }), "null pointer");
  contains(with([](auto& all) { all[2].weight = static_cast<std::byte*>(all[2].weight) + 1; }),
           "not aligned");
  contains(with([](auto& all) { all[2].weight = all[0].weight; }), "share memory");
  contains(with([](auto& all) { all[2].gradient = all[0].weight; }), "share memory");
  contains(with([](auto& all) { all[2].gradient = all[0].gradient; }), "share memory");
  contains(with([](auto& all) {
             all[1].gradient = static_cast<const std::byte*>(all[0].gradient) + 4096;
           }),
           "share memory");
}

TEST(Registration, RefusesSettings) {
  Loop loop(small_shapes());
  const auto with = [&](const std::function<void(Settings&)>& bad) {
    Settings s = settings_of("stream");
    bad(s);
    return refusal(s, loop.parameters());
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(with([](Settings& s) { s.states = "everywhere"; }), "resident, stream or host");
  contains(with([](Settings& s) { s.offload_fraction = 1.5; }), "0 to 1");
  contains(with([](Settings& s) { s.host_fraction = -0.1; }), "0 to 1");
  contains(with([](Settings& s) {
             s.offload_fraction = 0.2;
             s.host_fraction = 0.5;
           }),
           "at most");
  contains(with([](Settings& s) {
             s.states = "resident";
             s.offload_fraction = 0.5;
           }),
           "keeps them all");
  contains(with([](Settings& s) { s.rule.name = "adamx"; }), "adamw");
  contains(with([](Settings& s) { s.rule.momentum = 0.5; }),
           "--momentum: --optimizer adamw does not have it");
  contains(with([](Settings& s) { s.rule.beta1 = 1.0; }), "beta1");
  contains(with([](Settings& s) { s.state_format = "int4"; }), "exact, bf16, int8");
  contains(with([](Settings& s) {
             s.rule.name = "lion";
             s.state_format = "int8";
           }),
           "exact alone");
  contains(with([](Settings& s) { s.chunk_parameters = -1; }), "chunk_parameters");
  contains(with([](Settings& s) { s.window = 100; }), "window");
  contains(with([](Settings& s) { s.threads = -1; }), "threads");
  contains(with([](Settings& s) { s.threads = 1'000'000; }), "threads 1000000: expected 0 (all");
  contains(with([](Settings& s) { s.device = "abacus"; }), "abacus");
}

TEST(Limits, AreRefusedWithATableOrKept) {
  Loop loop(small_shapes());
  for (const std::string states : {"resident", "stream", "host"}) {
    Settings s = settings_of(states);
    const auto placement = Optimizer(s, loop.parameters(), nullptr).placement();
    s.device_memory = placement.device_bytes;
    s.host_memory = placement.host_bytes;
    Optimizer(s, loop.parameters(), nullptr);  // exactly enough
    const std::vector<std::byte> before = loop.tensors[0].weight;
    s.device_memory = placement.device_bytes - 1;
    EXPECT_REFUSED(OutOfBudget, "more than the limit", Optimizer(s, loop.parameters(), nullptr));
    try {
      Optimizer(s, loop.parameters(), nullptr);
    } catch (const OutOfBudget& refusal) {
      ASSERT_EQ(refusal.shortfalls().size(), 1u);
      EXPECT_EQ(refusal.shortfalls()[0].tier, "device");
      EXPECT_EQ(refusal.shortfalls()[0].missing(), 1);
      EXPECT_FALSE(refusal.remedies().empty());
    }
    s.device_memory.reset();
    s.host_memory = placement.host_bytes - 1;
    EXPECT_REFUSED(OutOfBudget, "sums of squares", Optimizer(s, loop.parameters(), nullptr));
    EXPECT_EQ(loop.tensors[0].weight, before);
  }
}

TEST(Turns, GradientsAreReadyOnceEachAndWeightsAreAwaited) {
  for (const std::string states : {"resident", "stream", "host"}) {
    Loop loop(small_shapes());
    Optimizer optimizer(settings_of(states), loop.parameters(), nullptr);
    EXPECT_REFUSED(ConfigError, "counted from 0", optimizer.gradient_ready(6, nullptr));
    EXPECT_REFUSED(ConfigError, "counted from 0", optimizer.wait_for_weight(-1, nullptr));
    for (std::size_t t = 0; t < loop.tensors.size(); ++t) loop.make_gradient(t, 1);
    for (std::int64_t p = 0; p < 5; ++p) optimizer.gradient_ready(p, nullptr);
    EXPECT_REFUSED(ConfigError, "second time", optimizer.gradient_ready(2, nullptr));
    EXPECT_REFUSED(ConfigError, "'head' is missing", optimizer.step(1e-3, 1, nullptr));
    EXPECT_REFUSED(ConfigError, "between steps", optimizer.weights_changed(nullptr));
    EXPECT_REFUSED(ConfigError, "in use",
                   optimizer.set_gradient(0, loop.tensors[0].gradient.data()));
    optimizer.gradient_ready(5, nullptr);
    EXPECT_REFUSED(ConfigError, "learning rate", optimizer.step(-1, 1, nullptr));
    EXPECT_REFUSED(ConfigError, "clip", optimizer.step(1e-3, -1, nullptr));
    EXPECT_TRUE(optimizer.step(1e-3, 1, nullptr).applied);
    EXPECT_REFUSED(ConfigError, "nobody waited", optimizer.gradient_ready(0, nullptr));
    EXPECT_REFUSED(ConfigError, "in use",
                   optimizer.set_gradient(0, loop.tensors[0].gradient.data()));
    optimizer.wait_for_weight(0, nullptr);
    optimizer.gradient_ready(0, nullptr);
    EXPECT_REFUSED(ConfigError, "nobody waited", optimizer.gradient_ready(1, nullptr));
    optimizer.wait();
    optimizer.gradient_ready(1, nullptr);
  }
}

// A gradient that is read must not be another's, wholly or in part; one that is not may be.
TEST(Turns, GradientsInUseDoNotShareMemory) {
  for (const std::string states : {"resident", "stream", "host"}) {
    Loop loop(small_shapes());
    Optimizer optimizer(settings_of(states), loop.parameters(), nullptr);
    for (std::size_t t = 0; t < loop.tensors.size(); ++t) loop.make_gradient(t, 1);
    const std::byte* matrix = loop.tensors[2].gradient.data();
    const std::byte* const parts[] = {matrix, matrix + 2,
                                      matrix + loop.tensors[2].gradient.size() - 2};

    // Told when both are ready, as the other may have been about to move.
    optimizer.set_gradient(3, matrix);
    optimizer.gradient_ready(3, nullptr);
    EXPECT_REFUSED(ConfigError, "the gradient of 'matrix' and the gradient of 'bias' share memory",
                   optimizer.gradient_ready(2, nullptr));
    std::vector<std::byte> moved = loop.tensors[2].gradient;
    optimizer.set_gradient(2, moved.data());
    optimizer.gradient_ready(2, nullptr);
    for (const std::int64_t p : {0, 1, 4, 5}) optimizer.gradient_ready(p, nullptr);
    ASSERT_TRUE(optimizer.step(1e-3, 1, nullptr).applied);

    // The step reads them until their weights were waited for.
    optimizer.wait_for_weight(1, nullptr);
    EXPECT_REFUSED(ConfigError, "share memory", optimizer.set_gradient(1, moved.data() + 8));
    optimizer.wait_for_weight(2, nullptr);
    optimizer.wait_for_weight(3, nullptr);
    optimizer.set_gradient(1, moved.data() + 8);
    optimizer.set_gradient(2, matrix);
    optimizer.gradient_ready(2, nullptr);  // its old place is another's by now
    optimizer.wait();
    for (const std::byte* part : parts) {
      EXPECT_REFUSED(ConfigError, "share memory", optimizer.set_gradient(3, part));
    }
    optimizer.set_gradient(3, loop.tensors[3].gradient.data());
    for (const std::int64_t p : {0, 1, 3, 4, 5}) optimizer.gradient_ready(p, nullptr);
    EXPECT_TRUE(optimizer.step(1e-3, 1, nullptr).applied);
    // A step that was not made reads nothing any more.
    optimizer.wait();
    fail_once(optimizer, loop);
    optimizer.set_gradient(3, matrix);
  }
}

TEST(Turns, AGradientThatComesLaterOrMoves) {
  Loop by_hand(small_shapes());
  HandRun expected(by_hand, states::AdamW{}, kernels::StateFormat::exact, 0);
  Loop loop(small_shapes());
  auto parameters = loop.parameters();
  parameters[2].gradient = nullptr;
  Optimizer optimizer(settings_of("host"), parameters, nullptr);
  EXPECT_REFUSED(ConfigError, "set_gradient()", optimizer.gradient_ready(2, nullptr));
  EXPECT_REFUSED(ConfigError, "null pointer", optimizer.set_gradient(2, nullptr));
  EXPECT_REFUSED(ConfigError, "share memory",
                 optimizer.set_gradient(2, loop.tensors[0].weight.data() + 2));
  for (std::int64_t step = 1; step <= 3; ++step) {
    optimizer.wait();
    std::vector<std::byte> moved(loop.tensors[2].gradient.size());
    loop.tensors[2].gradient.swap(moved);
    optimizer.set_gradient(2, loop.tensors[2].gradient.data());
    expected.step(step);
    step_once(optimizer, loop, step);
    optimizer.wait();  // `moved` may go
  }
  expect_equal(optimizer, expected, by_hand, "gradients that move");
}

TEST(Norm, NotFiniteTouchesNothingAndNamesTheFirst) {
  for (const std::string states : {"resident", "stream", "host"}) {
    Loop by_hand(small_shapes());
    HandRun expected(by_hand, states::AdamW{}, kernels::StateFormat::exact, 0);
    Loop loop(small_shapes());
    Optimizer optimizer(settings_of(states), loop.parameters(), nullptr, 5);
    expected.step(1);
    step_once(optimizer, loop, 1);
    optimizer.wait();
    for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
      loop.make_gradient(t, 2);
      const std::uint16_t bad = t == 2 ? 0x7fc0 : t == 4 ? 0x7f80 : 0;
      if (bad != 0) std::memcpy(loop.tensors[t].gradient.data() + 200, &bad, 2);
      optimizer.gradient_ready(static_cast<std::int64_t>(t), nullptr);
    }
    const auto report = optimizer.step(rate_of(2), kClip, nullptr);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.first_bad, 2);
    EXPECT_EQ(report.step, 1);
    EXPECT_FALSE(std::isfinite(report.norm));
    expect_equal(optimizer, expected, by_hand, states + " after a step that was not made");
    // And it goes on as if nothing had been.
    for (std::int64_t step = 2; step <= 4; ++step) {
      expected.step(step);
      step_once(optimizer, loop, step);
    }
    expect_equal(optimizer, expected, by_hand, states + " later");
  }
}

// After such a step, too, the caller's gradients are the caller's again: nothing reads them.
TEST(Norm, NotFiniteStillEndsTheGradientsWayDown) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Loop loop(small_shapes());
    Optimizer optimizer(settings_of("host"), loop.parameters(), nullptr, seed);
    Bytes gradients = 0;
    for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
      loop.make_gradient(t, 1);
      std::memset(loop.tensors[t].gradient.data(), 0xff, 2);  // a NaN
      gradients += static_cast<Bytes>(loop.tensors[t].gradient.size());
      optimizer.gradient_ready(static_cast<std::int64_t>(t), nullptr);
    }
    EXPECT_FALSE(optimizer.step(1e-3, 1, nullptr).applied);
    for (std::int64_t p = 0; p < optimizer.parameters(); ++p) optimizer.wait_for_weight(p, nullptr);
    EXPECT_GE(optimizer.traffic().down, gradients) << "copies were still under way, seed " << seed;
  }
}

TEST(Norm, WithoutClippingTheFactorIsOne) {
  Loop loop(small_shapes());
  Optimizer optimizer(settings_of("stream"), loop.parameters(), nullptr);
  for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
    loop.make_gradient(t, 1);
    optimizer.gradient_ready(static_cast<std::int64_t>(t), nullptr);
  }
  const auto report = optimizer.step(1e-3, 0, nullptr);
  EXPECT_GT(report.norm, 1.0);
  EXPECT_EQ(report.clip_factor, 1.0);
}

// A weight that was waited for is the updated one, whatever lane is late, and is the caller's to
// read although the others may still be under way.
TEST(Order, AWeightThatWasAwaitedIsTheNewOne) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    for (const std::string states : {"resident", "stream", "host"}) {
      Loop by_hand(small_shapes());
      HandRun expected(by_hand, states::AdamW{}, kernels::StateFormat::exact, 0);
      Loop loop(small_shapes());
      Optimizer optimizer(settings_of(states), loop.parameters(), nullptr, seed);
      for (std::int64_t step = 1; step <= 3; ++step) {
        expected.step(step);
        step_once(optimizer, loop, step);
        for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
          optimizer.wait_for_weight(static_cast<std::int64_t>(t), nullptr);
          ASSERT_EQ(loop.tensors[t].weight, by_hand.tensors[t].weight)
              << states << ", step " << step << ", " << loop.tensors[t].shape.name;
          // The gradient is the caller's again, too.
          std::fill(loop.tensors[t].gradient.begin(), loop.tensors[t].gradient.end(),
                    std::byte{0x7f});
        }
      }
      expect_equal(optimizer, expected, by_hand, states);
    }
  }
}

// Weights that the caller loaded after the optimizer was made are the masters of the next step, at
// every site: nothing of the old ones comes back.
TEST(WeightsChanged, StaleMastersAreForgotten) {
  for (const Type type : {Type::bf16, Type::fp32}) {
    const auto shapes = small_shapes(type);
    Loop loaded(shapes, 99);
    const std::string masters =
        Optimizer(settings_of("resident"), loaded.parameters(), nullptr).store().weights_digest();
    const auto run = [&](const std::string& states) {
      Loop loop(shapes);
      Optimizer optimizer(settings_of(states), loop.parameters(), nullptr);
      step_once(optimizer, loop, 1);  // makes low halves, and copies on the host, that must go
      optimizer.wait();
      for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
        std::copy(loaded.tensors[t].weight.begin(), loaded.tensors[t].weight.end(),
                  loop.tensors[t].weight.begin());
      }
      optimizer.weights_changed(nullptr);
      EXPECT_EQ(optimizer.store().weights_digest(), masters) << states;
      step_once(optimizer, loop, 2);
      return optimizer.store().weights_digest() + optimizer.store().stored_moments_digest();
    };
    const std::string resident = run("resident");
    EXPECT_EQ(run("stream"), resident);
    EXPECT_EQ(run("host"), resident);
  }
}

// States that were fetched for a step that was not made are in the window; new ones must not be
// hidden by them.
TEST(WeightsChanged, WhatWasFetchedBeforeIsForgottenToo) {
  const auto run = [](const std::string& states) {
    Loop loop(small_shapes());
    Optimizer optimizer(settings_of(states), loop.parameters(), nullptr);
    step_once(optimizer, loop, 1);
    optimizer.wait();
    fail_once(optimizer, loop);
    optimizer.weights_changed(nullptr);
    step_once(optimizer, loop, 2);
    return optimizer.store().weights_digest();
  };
  EXPECT_EQ(run("stream"), run("resident"));
}

TEST(Master, ReadsTheMasterOfAnySite) {
  Loop by_hand(small_shapes());
  HandRun expected(by_hand, states::AdamW{}, kernels::StateFormat::exact, 0);
  Loop loop(small_shapes());
  Optimizer optimizer(settings_of("host"), loop.parameters(), nullptr);
  expected.step(1);
  step_once(optimizer, loop, 1);
  std::vector<float> found(static_cast<std::size_t>(loop.tensors[2].shape.count));
  optimizer.read_master(2, found);
  const auto* high = reinterpret_cast<const bf16*>(expected.plane(Plane::weight, 2));
  const auto* low = reinterpret_cast<const std::int16_t*>(expected.plane(Plane::low, 2));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], kernels::join_master(high[i], low[i])) << i;
  }
  found.pop_back();
  EXPECT_REFUSED(ConfigError, "elements", optimizer.read_master(2, found));
}

}  // namespace
}  // namespace ebb::hybrid
