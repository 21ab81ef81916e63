// Profiles: as JSON and back, and those that ship.
#include "plan/profile.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "ebb/error.h"
#include "plan/machines.h"

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

TEST(Profile, HasOtherFiguresForOtherTypesAndFormats) {
  const Profile profile = machine("h200");
  const Profile fp32 = with_variant(profile, "fp32");
  EXPECT_LT(fp32.matmul_flops, profile.matmul_flops);
  EXPECT_EQ(fp32.up_bytes_per_second, profile.up_bytes_per_second);
  EXPECT_NE(with_variant(profile, "int8 states").host_bytes_per_second,
            profile.host_bytes_per_second);
  EXPECT_EQ(to_json(with_variant(profile, "exact states")), to_json(profile));
}

TEST(Profile, EveryPartOfTheWorkHasItsSpeed) {
  const Profile profile = machine("rtx-4090");
  const Cost work{.flops = 1e12,
                  .narrow_flops = 2e12,
                  .attention_flops = 3e12,
                  .attention_backward_flops = 4e12,
                  .pass_bytes = 5e9,
                  .bytes = 6e9,
                  .calls = 7};
  Cost twice = work;
  twice += work;
  double sum = profile.task_seconds;
  int parts = 0;
  for (const ProfileField& field : profile_fields()) {
    const double seconds = seconds_of(work, field, profile);
    EXPECT_DOUBLE_EQ(seconds_of(twice, field, profile), 2 * seconds) << field.name;
    parts += seconds > 0 ? 1 : 0;
    sum += seconds;
  }
  EXPECT_EQ(parts, 7);
  EXPECT_DOUBLE_EQ(
      predicted_seconds({.cost = work}, {.name = "compute", .kind = LaneKind::compute}, profile),
      sum);
  EXPECT_DOUBLE_EQ(profile.matmul_flops, 0.75 * 165.2e12);
}

TEST(Machines, AreWholeAndSayWhereNumbersAreFrom) {
  for (const std::string_view name : machine_names()) {
    const Profile profile = machine(name);
    const Json json = to_json(profile);
    EXPECT_EQ(to_json(parse_profile(parse_json(json.dump(), "a file"), "a file")), json) << name;
    EXPECT_GT(profile.device_memory, 0) << name;
    EXPECT_GT(profile.host_memory, 0) << name;
    for (const auto& [figure, value] : json.at("figures").items()) {
      const auto source = value.at("source").get<std::string>();
      EXPECT_TRUE(source == "measured" || source == "rule of thumb" ||
                  source.ends_with(" of data sheet"))
          << name << " " << figure << ": " << source;
    }
  }
}

TEST(Machines, AreListedWhereOneIsUnknown) {
  try {
    machine("rtx-9999");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("rtx-4090"), std::string::npos);
  }
}

// Files of the version before know one rate for all that the CPU does.
TEST(Profile, OfTheVersionBeforeIsStillRead) {
  Json json = to_json(machine("h200"));
  json["version"] = 2;
  json["figures"].erase("sum_bytes_per_second");
  for (Json& shared : json["shared"]) {
    shared.erase("beside");
    shared["wants"]["host"] = shared["wants"]["update"];
    shared["wants"].erase("update");
    shared["wants"].erase("sum");
  }
  const Profile profile = parse_profile(json, "a file");
  EXPECT_EQ(profile.sum_bytes_per_second.value, profile.host_bytes_per_second.value);
  for (const Shared& shared : profile.shared) {
    EXPECT_EQ(shared.wants_of(Draw::sum), shared.wants_of(Draw::update));
    EXPECT_EQ(shared.beside_of(Draw::up), 0);
  }
}

// And those of another know nothing of blocks that the CPU computes.
TEST(Profile, OfTheVersionWithoutBlocksIsStillRead) {
  Json json = to_json(machine("h200"));
  json["version"] = 4;
  for (const char* figure : {"cpu_flops", "cpu_read_bytes_per_second"}) {
    json["figures"].erase(figure);
  }
  for (Json& shared : json["shared"]) {
    for (const char* part : {"wants", "beside"}) shared[part].erase("block");
  }
  const Profile profile = parse_profile(json, "a file");
  EXPECT_EQ(profile.cpu_flops.source, "rule of thumb");
  EXPECT_EQ(profile.cpu_read_bytes_per_second.value, profile.host_bytes_per_second.value);
  for (const Shared& shared : profile.shared) {
    EXPECT_EQ(shared.wants_of(Draw::block), shared.wants_of(Draw::update));
  }
}

// A product of few tokens takes as long as reading its weights, one of many as computing.
TEST(Profile, BlocksOfTheCpuTakeTheLongerOfComputingAndReading) {
  Profile profile = rough_gpu_profile(16);
  profile.cpu_flops = {1e12, "assumed"};
  profile.cpu_read_bytes_per_second = {1e11, "assumed"};
  EXPECT_DOUBLE_EQ(cpu_seconds({.narrow_flops = 2e9, .read_bytes = 2e9}, profile), 0.02);
  EXPECT_DOUBLE_EQ(cpu_seconds({.flops = 2e12, .read_bytes = 2e9}, profile), 2.0);
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
  other = json;
  other["device"] = "abacus";
  EXPECT_NE(refusal(other).find("abacus"), std::string::npos);
  other = json;
  other["cores"] = 0;
  EXPECT_NE(refusal(other).find("cores"), std::string::npos);
  other = json;
  other["shared"][0]["wants"]["up"] = -1;
  EXPECT_NE(refusal(other).find("wants"), std::string::npos);
  other = json;
  other["variants"]["fp32"]["moon_flops"] = {{"value", 1}, {"source", "a guess"}};
  EXPECT_NE(refusal(other).find("moon_flops"), std::string::npos);
}

}  // namespace
}  // namespace ebb::plan
