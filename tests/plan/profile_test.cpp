// Profiles: as JSON and back.
#include "plan/profile.h"

#include <gtest/gtest.h>

#include "ebb/error.h"

namespace ebb::plan {
namespace {

TEST(Profile, ComesBackFromJson) {
  for (Profile profile : {rough_cpu_profile(3), rough_gpu_profile(16)}) {
    profile.device_memory = 5 * kGiB;
    profile.host_memory = 7 * kGiB;
    const Json json = to_json(profile);
    const Profile back = parse_profile(parse_json(json.dump(), "a file"), "a file");
    EXPECT_EQ(to_json(back), json);
    EXPECT_EQ(back.device_memory, 5 * kGiB);
    EXPECT_EQ(back.shared.at(0).wants, profile.shared.at(0).wants);
    for (const auto& [figure, value] : json.at("figures").items()) {
      EXPECT_GT(value.at("value").get<double>(), 0) << figure;
      EXPECT_EQ(value.at("source"), "rule of thumb") << figure;
    }
  }
}

TEST(Profile, RefusesWhatIsNone) {
  Json json = to_json(rough_gpu_profile(16));
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

}  // namespace
}  // namespace ebb::plan
