// The functions of C linkage do what the class does, and turn its errors into texts.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>

#include "ebb/hybrid_optimizer.h"
#include "ebb/hybrid_optimizer_c.h"
#include "hand_run.h"
#include "io/temp_folder.h"
#include "paths.h"

namespace ebb::hybrid {
namespace {

std::vector<ebb_hybrid_parameter> c_parameters(Loop& loop) {
  std::vector<ebb_hybrid_parameter> all;
  for (Tensor& t : loop.tensors) {
    all.push_back({.struct_size = sizeof(ebb_hybrid_parameter),
                   .name = t.shape.name.c_str(),
                   .weight = t.weight.data(),
                   .gradient = t.gradient.data(),
                   .count = t.shape.count,
                   .weight_type = t.shape.weight_type == Type::fp32 ? 1 : 0,
                   .gradient_type = t.shape.gradient_type == Type::fp32 ? 1 : 0,
                   .decays = t.shape.decays ? 1 : 0,
                   .group = 0});
  }
  return all;
}

ebb_hybrid* create(Loop& loop, const char* settings) {
  const auto parameters = c_parameters(loop);
  return ebb_hybrid_create(settings, parameters.data(),
                           static_cast<std::int64_t>(parameters.size()), nullptr);
}

TEST(CInterface, StepsSavesAndLoadsAsTheClassDoes) {
  const io::TempFolder folder;
  const std::string path = (folder / "state").string();
  Loop of_class(small_shapes());
  HybridOptimizer::Settings settings;
  settings.rule.weight_decay = 0.25;
  settings.states = "host";
  settings.seed = 5;
  settings.state_format = "int8";
  HybridOptimizer expected(settings, of_class.parameters());
  Loop loop(small_shapes());
  ebb_hybrid* found = create(loop,
                             R"({"rule": "adamw", "weight_decay": 0.25, "states": "stream",
                                 "state_format": "int8", "offload_fraction": 0.5, "seed": 5,
                                 "chunk_parameters": 4096, "threads": 2})");
  ASSERT_NE(found, nullptr) << ebb_hybrid_error();
  const auto count = static_cast<std::int64_t>(loop.tensors.size());
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (std::int64_t p = 0; p < count; ++p) {
      expected.wait_for_weight(p);
      ASSERT_EQ(ebb_hybrid_wait_for_weight(found, p, nullptr), 0) << ebb_hybrid_error();
      of_class.make_gradient(static_cast<std::size_t>(p), step);
      loop.make_gradient(static_cast<std::size_t>(p), step);
      expected.gradient_ready(p);
      ASSERT_EQ(ebb_hybrid_set_gradient(found, p,
                                        loop.tensors[static_cast<std::size_t>(p)].gradient.data()),
                0);
      ASSERT_EQ(ebb_hybrid_gradient_ready(found, p, nullptr), 0) << ebb_hybrid_error();
    }
    const auto wanted = expected.step(1e-3, 1.0);
    ebb_hybrid_report report{};
    report.struct_size = sizeof report;
    ASSERT_EQ(ebb_hybrid_step(found, 1e-3, 1.0, nullptr, &report), 0) << ebb_hybrid_error();
    EXPECT_EQ(report.step, wanted.step);
    EXPECT_EQ(report.norm, wanted.norm);
    EXPECT_EQ(report.clip_factor, wanted.clip_factor);
    EXPECT_EQ(report.applied, 1);
    EXPECT_EQ(report.first_bad, -1);
  }
  std::array<char, 33> weights{};
  std::array<char, 33> moments{};
  ASSERT_EQ(ebb_hybrid_digests(found, weights.data(), moments.data()), 0);
  EXPECT_EQ(weights.data(), expected.weights_digest());
  EXPECT_EQ(moments.data(), expected.moments_digest());
  std::vector<float> master(static_cast<std::size_t>(loop.tensors[0].shape.count));
  std::vector<float> of_other(master.size());
  ASSERT_EQ(ebb_hybrid_read_master(found, 0, master.data(), loop.tensors[0].shape.count), 0);
  expected.read_master(0, of_other);
  EXPECT_EQ(master, of_other);
  std::int64_t up = 0;
  std::int64_t down = 0;
  ASSERT_EQ(ebb_hybrid_traffic(found, &up, &down), 0);
  EXPECT_GT(up, 0);
  EXPECT_GT(down, 0);
  // A call that fails writes nothing.
  up = -7;
  EXPECT_NE(ebb_hybrid_traffic(found, &up, nullptr), 0);
  EXPECT_EQ(up, -7);
  char untouched[33] = "as it was";
  EXPECT_NE(ebb_hybrid_digests(found, untouched, nullptr), 0);
  EXPECT_STREQ(untouched, "as it was");
  ebb_hybrid_placement placement{};
  placement.struct_size = sizeof placement;
  ASSERT_EQ(ebb_hybrid_placement_of(found, &placement), 0);
  EXPECT_GT(placement.streamed_parameters, 0);
  EXPECT_GT(placement.resident_parameters, 0);
  ASSERT_EQ(ebb_hybrid_wait(found), 0);

  ASSERT_EQ(ebb_hybrid_save(found, path.c_str()), 0) << ebb_hybrid_error();
  ebb_hybrid_destroy(found);
  Loop later(small_shapes(), 123);
  ebb_hybrid* second = create(later, R"({"state_format": "int8", "states": "host"})");
  ASSERT_NE(second, nullptr) << ebb_hybrid_error();
  ASSERT_EQ(ebb_hybrid_load(second, path.c_str(), nullptr), 0) << ebb_hybrid_error();
  ASSERT_EQ(ebb_hybrid_digests(second, weights.data(), moments.data()), 0);
  EXPECT_EQ(weights.data(), expected.weights_digest());
  EXPECT_EQ(moments.data(), expected.moments_digest());
  ASSERT_EQ(ebb_hybrid_weights_changed(second, nullptr), 0);
  ebb_hybrid_destroy(second);
}

TEST(CInterface, ErrorsAreTexts) {
  Loop loop(small_shapes());
  const auto refused = [&](const char* settings, const std::string& part) {
    ebb_hybrid* made = create(loop, settings);
    EXPECT_EQ(made, nullptr) << settings;
    ebb_hybrid_destroy(made);
    EXPECT_NE(std::string(ebb_hybrid_error()).find(part), std::string::npos) << ebb_hybrid_error();
  };
  refused(nullptr, "null pointer");
  refused("{", "settings");
  refused("[]", "JSON object");
  refused(R"({"speed": 9})", "'speed': there is none");
  refused(R"({"threads": 1.5})", "threads");
  refused(R"({"threads": "2"})", "threads");
  refused(R"({"seed": -1})", "seed");
  refused(R"({"states": "stream", "states": "host"})", "states");
  refused(R"({"beta1": 2})", "beta1");
  ebb_hybrid* made = create(loop, "{}");
  ASSERT_NE(made, nullptr) << ebb_hybrid_error();
  EXPECT_EQ(ebb_hybrid_step(made, 1e-3, 1, nullptr, nullptr), 1);
  EXPECT_NE(std::string(ebb_hybrid_error()).find("is missing"), std::string::npos);
  EXPECT_EQ(ebb_hybrid_load(made, "nowhere/at/all", nullptr), 1);
  EXPECT_EQ(ebb_hybrid_save(made, nullptr), 1);
  EXPECT_EQ(ebb_hybrid_wait(nullptr), 1);
  ebb_hybrid_destroy(made);
}

// Structs of another size than any version of the header declares are refused before they are read
// or written.
TEST(CInterface, RefusesStructsOfUnknownSize) {
  Loop loop(small_shapes());
  const auto refuses = [](std::size_t size) {
    const std::string text = ebb_hybrid_error();
    EXPECT_NE(text.find("struct_size is " + std::to_string(size)), std::string::npos) << text;
  };
  for (const std::size_t size : {std::size_t{0}, sizeof(ebb_hybrid_parameter) + 8}) {
    auto parameters = c_parameters(loop);
    const auto count = static_cast<std::int64_t>(parameters.size());
    parameters.front().struct_size = size;
    EXPECT_EQ(ebb_hybrid_create("{}", parameters.data(), count, nullptr), nullptr);
    refuses(size);
    parameters = c_parameters(loop);
    parameters.back().struct_size = size;
    EXPECT_EQ(ebb_hybrid_create("{}", parameters.data(), count, nullptr), nullptr);
    refuses(size);
  }
  ebb_hybrid* made = create(loop, "{}");
  ASSERT_NE(made, nullptr) << ebb_hybrid_error();
  ebb_hybrid_placement placement{};
  EXPECT_EQ(ebb_hybrid_placement_of(made, &placement), 1);
  refuses(0);
  EXPECT_EQ(placement.device_bytes, 0);
  for (std::int64_t p = 0; p < static_cast<std::int64_t>(loop.tensors.size()); ++p) {
    loop.make_gradient(static_cast<std::size_t>(p), 1);
    ASSERT_EQ(ebb_hybrid_gradient_ready(made, p, nullptr), 0) << ebb_hybrid_error();
  }
  ebb_hybrid_report report{};
  EXPECT_EQ(ebb_hybrid_step(made, 1e-3, 1, nullptr, &report), 1);
  refuses(0);
  report.struct_size = sizeof report;
  EXPECT_EQ(ebb_hybrid_step(made, 1e-3, 1, nullptr, &report), 0) << ebb_hybrid_error();
  EXPECT_EQ(report.step, 1) << "a refused step was made";
  EXPECT_EQ(report.struct_size, sizeof report);
  ebb_hybrid_destroy(made);
}

// A program that was compiled with the header before it had groups.
TEST(CInterface, TakesParametersOfTheFirstVersion) {
  Loop loop(small_shapes());
  const auto parameters = c_parameters(loop);
  constexpr std::size_t size = offsetof(ebb_hybrid_parameter, group);
  std::vector<std::byte> list(size * parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    ebb_hybrid_parameter old = parameters[p];
    old.struct_size = size;
    std::memcpy(list.data() + p * size, &old, size);
  }
  ebb_hybrid* made =
      ebb_hybrid_create("{}", reinterpret_cast<const ebb_hybrid_parameter*>(list.data()),
                        static_cast<std::int64_t>(parameters.size()), nullptr);
  EXPECT_NE(made, nullptr) << ebb_hybrid_error();
  ebb_hybrid_destroy(made);
}

// Groups' numbers, what has no gradient, and states by parameter: as the class does it.
TEST(CInterface, StepsByGroupsAndReadsStates) {
  Loop of_class(small_shapes());
  auto class_parameters = of_class.parameters();
  Loop loop(small_shapes());
  auto parameters = c_parameters(loop);
  const auto count = static_cast<std::int64_t>(parameters.size());
  for (std::int64_t p = 0; p < count; ++p) {
    parameters[static_cast<std::size_t>(p)].group = p % 2;
    class_parameters[static_cast<std::size_t>(p)].group = p % 2;
  }
  HybridOptimizer expected({}, class_parameters);
  ebb_hybrid* found = ebb_hybrid_create("{}", parameters.data(), count, nullptr);
  ASSERT_NE(found, nullptr) << ebb_hybrid_error();
  for (std::int64_t p = 0; p < count; ++p) {
    of_class.make_gradient(static_cast<std::size_t>(p), 1);
    loop.make_gradient(static_cast<std::size_t>(p), 1);
    ASSERT_EQ(
        p == 2 ? ebb_hybrid_leave_out(found, p) : ebb_hybrid_gradient_ready(found, p, nullptr), 0);
    p == 2 ? expected.leave_out(p) : expected.gradient_ready(p);
  }
  const double unset = std::numeric_limits<double>::quiet_NaN();
  std::array<ebb_hybrid_group, 2> groups{};
  groups.fill({sizeof(ebb_hybrid_group), 1e-2, unset, unset, unset, unset, unset, -1});
  groups[1].learning_rate = 1e-3;
  groups[1].beta2 = 0.5;
  ebb_hybrid_report report{};
  report.struct_size = sizeof report;
  ASSERT_EQ(ebb_hybrid_step_groups(found, groups.data(), 2, 1.0, 4.0, nullptr, &report), 0)
      << ebb_hybrid_error();
  const auto wanted = expected.step(
      std::array<HybridOptimizer::GroupStep, 2>{
          {{.learning_rate = 1e-2}, {.learning_rate = 1e-3, .beta2 = 0.5}}},
      1.0, 4.0);
  EXPECT_EQ(report.norm, wanted.norm);
  EXPECT_EQ(report.clip_factor, wanted.clip_factor);
  std::array<char, 33> weights{};
  std::array<char, 33> moments{};
  ASSERT_EQ(ebb_hybrid_digests(found, weights.data(), moments.data()), 0);
  EXPECT_EQ(weights.data(), expected.weights_digest());
  EXPECT_EQ(moments.data(), expected.moments_digest());
  std::int64_t steps = -1;
  ASSERT_EQ(ebb_hybrid_steps_of(found, 2, &steps), 0);
  EXPECT_EQ(steps, 0);

  const std::int64_t size = loop.tensors[0].shape.count;
  std::vector<float> first(static_cast<std::size_t>(size));
  std::vector<float> second(first.size());
  ASSERT_EQ(ebb_hybrid_read_moments(found, 0, first.data(), second.data(), size), 0);
  ASSERT_EQ(ebb_hybrid_write_moments(found, 0, second.data(), first.data(), size), 0);
  std::int64_t bytes = 0;
  ASSERT_EQ(ebb_hybrid_stored_moments(found, 0, &bytes), 0);
  ASSERT_EQ(bytes, 8 * size);
  std::vector<float> stored(2 * first.size());
  ASSERT_EQ(ebb_hybrid_read_stored_moments(found, 0, stored.data(), bytes), 0);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), stored.begin()));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), stored.begin() + size));
  ASSERT_EQ(ebb_hybrid_write_stored_moments(found, 0, stored.data(), bytes), 0);
  ASSERT_EQ(ebb_hybrid_set_steps(found, 0, 9), 0);
  ASSERT_EQ(ebb_hybrid_write_master(found, 0, first.data(), size, nullptr), 0);
  ASSERT_EQ(ebb_hybrid_read_master(found, 0, second.data(), size), 0);
  EXPECT_EQ(first, second);
  ASSERT_EQ(ebb_hybrid_discard(found), 0);

  for (ebb_hybrid_group& group : groups) group.struct_size += 8;
  EXPECT_EQ(ebb_hybrid_step_groups(found, groups.data(), 2, 1.0, 1.0, nullptr, nullptr), 1);
  EXPECT_NE(std::string(ebb_hybrid_error()).find("ebb_hybrid_group"), std::string::npos);
  EXPECT_EQ(ebb_hybrid_step_groups(found, nullptr, 2, 1.0, 1.0, nullptr, nullptr), 1);
  EXPECT_EQ(ebb_hybrid_read_moments(found, 0, nullptr, nullptr, size), 1);
  EXPECT_EQ(ebb_hybrid_read_stored_moments(found, 0, stored.data(), bytes - 1), 1);
  ebb_hybrid_destroy(found);
}

// What a program that loads the shared library does: it finds every function there, and they work.
TEST(SharedLibrary, HasTheFunctionsOfTheHeader) {
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen(hybrid_library().c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const char* name : {"version",
                           "error",
                           "create",
                           "destroy",
                           "set_gradient",
                           "gradient_ready",
                           "leave_out",
                           "discard",
                           "step",
                           "step_groups",
                           "wait_for_weight",
                           "wait",
                           "weights_changed",
                           "save",
                           "load",
                           "read_master",
                           "write_master",
                           "steps_of",
                           "set_steps",
                           "read_moments",
                           "write_moments",
                           "stored_moments",
                           "read_stored_moments",
                           "write_stored_moments",
                           "placement_of",
                           "traffic",
                           "digests"}) {
    EXPECT_NE(dlsym(library.get(), (std::string("ebb_hybrid_") + name).c_str()), nullptr) << name;
  }
  const auto find = [&]<class Function>(Function*& to, const char* name) {
    to = reinterpret_cast<Function*>(dlsym(library.get(), name));
  };
  decltype(ebb_hybrid_create)* create_there = nullptr;
  decltype(ebb_hybrid_digests)* digests_there = nullptr;
  decltype(ebb_hybrid_destroy)* destroy_there = nullptr;
  find(create_there, "ebb_hybrid_create");
  find(digests_there, "ebb_hybrid_digests");
  find(destroy_there, "ebb_hybrid_destroy");
  ASSERT_NE(create_there, &ebb_hybrid_create) << "found its own";
  Loop loop(small_shapes());
  const auto parameters = c_parameters(loop);
  ebb_hybrid* made =
      create_there("{}", parameters.data(), static_cast<std::int64_t>(parameters.size()), nullptr);
  ASSERT_NE(made, nullptr);
  std::array<char, 33> weights{};
  std::array<char, 33> moments{};
  EXPECT_EQ(digests_there(made, weights.data(), moments.data()), 0);
  EXPECT_EQ(std::string(weights.data()).size(), 32u);
  destroy_there(made);
}

}  // namespace
}  // namespace ebb::hybrid
