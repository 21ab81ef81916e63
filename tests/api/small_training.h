// The tiny preset on a made-up text, in a folder of the test's own.
#pragma once

#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ebb/train.h"
#include "engine/small_runs.h"
#include "io/temp_folder.h"

namespace ebb {

inline DeviceKind small_device() {
  return parse_word<DeviceKind>(engine::test_device(), "EBB_TEST_DEVICE");
}

class SmallTraining : public testing::Test {
 protected:
  SmallTraining() {
    // What a user's own machine has kept is none of a test's business.
    ::setenv("XDG_CACHE_HOME", at("cache").c_str(), 1);
    std::ofstream file(at("data.txt"), std::ios::binary);
    for (int i = 1; i <= 200; ++i) {
      file << fmt::format("line {}: the tide comes in and the tide goes out {} times.\n", i, i * i);
    }
  }

  std::string at(const std::string& name) const { return (folder / name).string(); }

  TrainOptions options(const std::string& out, std::int64_t steps) const {
    TrainOptions o;
    o.model = "preset:tiny";
    o.data = {at("data.txt")};
    o.out = at(out);
    o.sequence = 32;
    o.micro_batch = 2;
    o.steps = steps;
    o.device = small_device();
    return o;
  }

  static std::string digest(const TrainSummary& summary) {
    const auto json = nlohmann::json::parse(summary.json);
    return json.at("weights_digest").get<std::string>() +
           json.at("moments_digest").get<std::string>();
  }

  io::TempFolder folder;
};

// Keeps what it hears, and may ask for a stop.
struct Listener : TrainObserver {
  void note(const std::string& text) override { notes += text + "\n"; }
  void step(const StepReport& report) override {
    reports.push_back(report);
    if (on_step) on_step(report);
  }

  std::string notes;
  std::vector<StepReport> reports;
  std::function<void(const StepReport&)> on_step;
};

}  // namespace ebb
