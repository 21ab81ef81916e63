// Commands of a second or less: the tiny preset on a made-up text, in a folder of the test's own.
#pragma once

#include <stdlib.h>

#include <cstdint>

#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/temp_folder.h"

namespace ebb::cli {

using Json = nlohmann::json;

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class SmallCommands : public testing::Test {
 protected:
  SmallCommands() {
    // What a user's own machine has kept is none of a test's business.
    ::setenv("XDG_CACHE_HOME", at("cache").c_str(), 1);
    std::string text;
    for (int i = 1; i <= 200; ++i) {
      text += fmt::format("line {}: the tide comes in and the tide goes out {} times.\n", i, i * i);
    }
    write_file(data, text);
  }

  std::string at(const std::string& name) const { return (folder / name).string(); }

  // Without --model, --data and --out.
  Arguments batch(int steps) const {
    return {"--sequence", "32", "--micro-batch", "2", "--steps", std::to_string(steps)};
  }

  Arguments train(const std::string& out, int steps) const {
    return Arguments{"train", "--model", "preset:tiny", "--data", data, "--out", out} +
           batch(steps);
  }

  // Trains into the folder `name` and returns its path.
  std::string trained(const std::string& name, int steps, const Arguments& more = {}) const {
    const Finished run = run_ebb(train(at(name), steps) + more);
    EXPECT_EQ(run.code, 0) << run.err;
    return at(name);
  }

  static std::string step_folder(const std::string& run, int step) {
    return fmt::format("{}/step-{:08}", run, step);
  }

  io::TempFolder folder;
  std::string data = at("data.txt");
};

}  // namespace ebb::cli
