// Profiles: as JSON and back, and those that ship.
#include "plan/profile.h"

#include <gtest/gtest.h>

#include "ebb/error.h"
#include "plan/machines.h"

namespace ebb::plan {
namespace {

TEST(Profile, ComesBackFromJson) {
  for (const std::string_view name : machine_names()) {
    const Profile profile = machine(name);
    const Json json = to_json(profile);
    EXPECT_EQ(to_json(parse_profile(parse_json(json.dump(), "a file"), "a file")), json) << name;
    EXPECT_GT(profile.device_memory, 0) << name;
    EXPECT_GT(profile.host_memory, 0) << name;
    for (const auto& [figure, value] : json.at("figures").items()) {
      EXPECT_GT(value.at("value").get<double>(), 0) << name << " " << figure;
      const auto source = value.at("source").get<std::string>();
      EXPECT_TRUE(source == "measured" || source == "data sheet" || source == "assumed") << source;
    }
  }
}

TEST(Profile, RefusesWhatIsNone) {
  Json json = to_json(machine("h200"));
  const auto refusal = [](const Json& bad) -> std::string {
    try {
      parse_profile(bad, "machine.json");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(json), "");
  EXPECT_NE(refusal(Json::array()).find("machine.json"), std::string::npos);
  Json other = json;
  other["version"] = 99;
  EXPECT_NE(refusal(other).find("version"), std::string::npos);
  other = json;
  other["figures"]["up_bytes_per_second"]["value"] = 0;
  EXPECT_NE(refusal(other).find("up_bytes_per_second"), std::string::npos);
  other = json;
  other["figures"].erase("matmul_flops");
  EXPECT_NE(refusal(other).find("matmul_flops"), std::string::npos);
  other = json;
  other["figures"]["task_seconds"]["value"] = -1;
  EXPECT_NE(refusal(other).find("task_seconds"), std::string::npos);
}

TEST(Machines, AreListedWhereOneIsUnknown) {
  try {
    machine("rtx-9999");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("rtx-4090"), std::string::npos);
  }
}

}  // namespace
}  // namespace ebb::plan
