// What loops of PyTorch's kind want: settings by group, parameters without a gradient, scaled
// gradients, steps that are given up, and states that are read and written by parameter.
#include <gtest/gtest.h>

#include <set>

#include "ebb/error.h"
#include "hand_run.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::hybrid {
namespace {

using GroupStep = HybridOptimizer::GroupStep;

std::vector<Settings> placements(const std::string& format = "exact") {
  std::vector<Settings> all(5);
  all[0].states = "resident";
  all[2].states = "host";
  all[3].offload_fraction = 0.5;
  all[4].host_fraction = 0.4;
  for (Settings& s : all) {
    s.state_format = format;
    s.chunk_parameters = 4096;
    s.threads = 2;
    s.seed = 3;
  }
  return all;
}

std::string name_of(const Settings& s) {
  return s.states + " " + std::to_string(s.offload_fraction.value_or(-1)) + " " +
         std::to_string(s.host_fraction.value_or(-1)) + " " + s.state_format;
}

std::vector<HybridOptimizer::Parameter> grouped(Loop& loop) {
  auto parameters = loop.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    parameters[p].group = static_cast<std::int64_t>(p % 3);
  }
  return parameters;
}

std::vector<GroupStep> groups_of(std::int64_t step) {
  return {{.learning_rate = rate_of(step)},
          {.learning_rate = 3 * rate_of(step), .beta1 = 0.5, .weight_decay = 0.0},
          {.learning_rate = 0.5 * rate_of(step), .beta2 = 0.9, .epsilon = 1e-4}};
}

states::Rule rule_of_group(std::size_t group) {
  states::AdamW rule;
  if (group == 1) {
    rule.beta1 = 0.5;
    rule.weight_decay = 0;
  } else if (group == 2) {
    rule.beta2 = 0.9;
    rule.epsilon = 1e-4;
  }
  return rule;
}

// Who has no gradient: another set in every step, also whole chunks and a part of one.
bool is_left_out(std::size_t tensor, std::int64_t step) {
  static const std::vector<std::set<std::size_t>> sets = {{}, {1, 2}, {0}, {3, 4, 5}, {2}};
  return sets[static_cast<std::size_t>(step) % sets.size()].contains(tensor);
}

TEST(Groups, EveryPlacementIsTheSpecification) {
  constexpr double scale = 8;
  for (const std::string format : {"exact", "bf16", "int8"}) {
    for (const Settings& settings : placements(format)) {
      for (const std::uint64_t slow : {0, 11}) {
        if (slow != 0 && format != "exact") continue;
        Loop by_hand(small_shapes());
        HandRun expected(by_hand, states::AdamW{}, states::parse_state_format(format), 3);
        Loop loop(small_shapes());
        Optimizer optimizer(settings, grouped(loop), nullptr, slow);
        std::vector<std::int64_t> steps(loop.tensors.size(), 0);
        for (std::int64_t step = 1; step <= 6; ++step) {
          std::vector<HandRun::TensorStep> each;
          for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
            const auto p = static_cast<std::int64_t>(t);
            const std::size_t group = t % 3;
            const bool left_out = is_left_out(t, step);
            if (!left_out) ++steps[t];
            each.push_back(
                {left_out, rule_of_group(group), groups_of(step)[group].learning_rate, steps[t]});
            optimizer.wait_for_weight(p, nullptr);
            loop.make_gradient(t, step);
            left_out ? optimizer.leave_out(p) : optimizer.gradient_ready(p, nullptr);
          }
          const auto report = optimizer.step(groups_of(step), kClip, scale, nullptr);
          const auto wanted = expected.step(step, each, scale);
          ASSERT_EQ(report.norm, wanted.value) << name_of(settings);
          ASSERT_EQ(report.clip_factor, scale * static_cast<double>(wanted.scale.gradient_scale));
        }
        expect_equal(optimizer, expected, loop, name_of(settings));
        for (std::size_t t = 0; t < steps.size(); ++t) {
          EXPECT_EQ(optimizer.steps_of(static_cast<std::int64_t>(t)), steps[t]);
        }
      }
    }
  }
}

TEST(Groups, StepsThatAreGivenUpLeaveNothing) {
  for (const Settings& settings : placements()) {
    Loop by_hand(small_shapes());
    HandRun expected(by_hand, states::AdamW{}, kernels::StateFormat::exact, 3);
    Loop loop(small_shapes());
    Optimizer optimizer(settings, loop.parameters(), nullptr);
    for (std::int64_t step = 1; step <= 4; ++step) {
      // Some gradients of a step that is not made; others are still those of the last one.
      for (const std::int64_t p : {5, 2, 3}) {
        optimizer.wait_for_weight(p, nullptr);
        loop.make_gradient(static_cast<std::size_t>(p), 100 + step);
        p == 3 ? optimizer.leave_out(p) : optimizer.gradient_ready(p, nullptr);
      }
      optimizer.discard();
      step_once(optimizer, loop, step);
      expected.step(step);
    }
    expect_equal(optimizer, expected, loop, name_of(settings));
  }
}

// From one optimizer to another, parameter by parameter, at another place: it goes on with the same
// bits.
TEST(Groups, StatesAreReadAndWrittenByParameter) {
  for (const std::string format : {"exact", "bf16", "int8"}) {
    for (const Settings& settings : placements(format)) {
      Loop loop(small_shapes());
      Settings before = settings;
      before.states = "resident";
      before.offload_fraction = before.host_fraction = std::nullopt;
      Optimizer from(before, loop.parameters(), nullptr);
      for (std::int64_t step = 1; step <= 3; ++step) step_once(from, loop, step);
      from.wait();
      Loop other(small_shapes(), 99);
      Optimizer to(settings, other.parameters(), nullptr);
      step_once(to, other, 50);  // has states of its own, and fetched ones
      to.wait();
      for (std::int64_t p = 0; p < from.parameters(); ++p) {
        const auto count =
            static_cast<std::size_t>(loop.tensors[static_cast<std::size_t>(p)].shape.count);
        std::vector<float> master(count);
        from.read_master(p, master);
        to.write_master(p, master, nullptr);
        to.set_steps(p, from.steps_of(p));
        if (format == "int8") {
          std::vector<std::byte> stored(static_cast<std::size_t>(from.stored_moments(p)));
          from.read_stored_moments(p, stored);
          to.write_stored_moments(p, stored);
        } else {
          std::vector<float> first(count);
          std::vector<float> second(count);
          from.read_moments(p, first, second);
          to.write_moments(p, first, second);
        }
      }
      other.seed = loop.seed;
      for (std::int64_t step = 4; step <= 6; ++step) {
        step_once(from, loop, step);
        step_once(to, other, step);
      }
      EXPECT_EQ(from.store().weights_digest(), to.store().weights_digest()) << name_of(settings);
      EXPECT_EQ(from.store().stored_moments_digest(), to.store().stored_moments_digest())
          << name_of(settings);
    }
  }
}

TEST(Groups, RulesOfOneMomentHaveNoSecond) {
  Loop loop(small_shapes());
  Settings settings;
  settings.rule.name = "lion";
  Optimizer optimizer(settings, loop.parameters(), nullptr);
  std::vector<float> first(33, 0.5f);
  std::vector<float> read(33);
  optimizer.write_moments(1, first, {});
  optimizer.read_moments(1, read, {});
  EXPECT_EQ(first, read);
  EXPECT_THROW(optimizer.write_moments(1, first, first), ConfigError);
}

template <class Call>
void expect_refused(const std::string& part, Call call) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Groups, MisuseIsRefused) {
  const io::TempFolder folder;
  io::PosixFileSystem files;
  Loop loop(small_shapes());
  auto parameters = grouped(loop);
  parameters[0].group = -1;
  expect_refused("its group is -1", [&] { Optimizer({}, parameters, nullptr); });
  Optimizer optimizer({}, grouped(loop), nullptr);
  std::vector<float> floats(33);
  std::vector<std::byte> bytes(3);
  expect_refused("32 elements",
                 [&] { optimizer.write_master(1, std::span(floats).first(32), nullptr); });
  expect_refused("3 bytes", [&] { optimizer.write_stored_moments(1, bytes); });
  expect_refused("-1 is not", [&] { optimizer.set_steps(1, -1); });
  optimizer.leave_out(1);
  expect_refused("second time", [&] { optimizer.leave_out(1); });
  expect_refused("second time", [&] { optimizer.gradient_ready(1, nullptr); });
  expect_refused("between steps", [&] { optimizer.write_master(1, floats, nullptr); });
  expect_refused("between steps", [&] { optimizer.set_steps(1, 1); });
  expect_refused("is missing", [&] { optimizer.step(groups_of(1), 0, 1, nullptr); });
  for (std::int64_t p = 0; p < optimizer.parameters(); ++p) {
    if (p == 1) continue;
    loop.make_gradient(static_cast<std::size_t>(p), 1);
    optimizer.gradient_ready(p, nullptr);
  }
  auto groups = groups_of(1);
  expect_refused("group 2", [&] { optimizer.step(std::span(groups).first(2), 0, 1, nullptr); });
  expect_refused("gradient scale", [&] { optimizer.step(groups, 0, 0, nullptr); });
  groups[1].momentum = 0.5;
  expect_refused("--momentum", [&] { optimizer.step(groups, 0, 1, nullptr); });
  groups[1] = {.learning_rate = -1};
  expect_refused("learning rate -1", [&] { optimizer.step(groups, 0, 1, nullptr); });
  optimizer.step(groups_of(1), 0, 1, nullptr);
  // A file has one count of steps.
  expect_refused("has taken", [&] { optimizer.save(files, folder / "state"); });
  optimizer.set_steps(1, 1);
  optimizer.save(files, folder / "state");
}

}  // namespace
}  // namespace ebb::hybrid
