// Measuring a machine and keeping what was measured. Nothing here depends on how fast it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ebb/error.h"
#include "ebb/probe.h"
#include "engine/machine_profile.h"
#include "engine/small_runs.h"
#include "engine/workload.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "measure/probe/block_work.h"
#include "measure/probe/measure.h"
#include "measure/probe/single_kind_ops.h"

namespace ebb::measure {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(BlockWork, EveryOpIsOfOneKind) {
  engine::Runtime runtime(engine::test_device(), 1);
  const auto stream = runtime.device().create_stream(device::StreamKind::compute, "compute");
  model::Config config = engine::small_config();
  config.layers = 1;
  config.tied = false;
  BlockWork block(runtime, *stream, config, DType::f32, {.rows = 2, .sequence = 24});
  kernels::CountingOps counting(runtime.device_model());
  plan::Cost all;
  using Kind = ChosenOps::Kind;
  for (const Kind kind : {Kind::product, Kind::attention, Kind::attention_backward, Kind::pass}) {
    ChosenOps chosen(counting, kind);
    block.run(chosen);
    const kernels::CountingOps::Count count = counting.take();
    EXPECT_FALSE(count.calls.empty());
    for (const auto& call : count.calls) EXPECT_EQ(call.kind, kind);
    all += engine::cost_of(count.calls);
  }
  const plan::Cost whole = block.cost();
  for (const plan::ProfileField& field : plan::profile_fields()) {
    if (field.work == nullptr) continue;
    EXPECT_EQ(all.*field.work, whole.*field.work) << field.name;
  }
  EXPECT_GT(whole.narrow_flops, 0);
  EXPECT_EQ(whole.flops, 0) << "all of this model's products are narrow";
}

class KeptProfile : public testing::Test {
 protected:
  KeptProfile() {
    ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
    file = engine::kept_profile_path(device).value();
  }
  static ProbeResult measure() {
    return probe({.device = parse_word<DeviceKind>(device, "--device"),
                  .threads = 2,
                  .seconds = 0,
                  .out = ""},
                 [](const BenchProgress&) {});
  }
  // The note, and where the runtime's figures are from.
  std::string load(int threads, const std::string& path = "") {
    engine::Runtime runtime(device, threads);
    const std::string note = engine::load_profile(files, runtime, path);
    EXPECT_EQ(runtime.profile().device_memory, runtime.memory().device);
    return note + " / " + runtime.profile().matmul_flops.source;
  }

  static inline const std::string device = engine::test_device();
  io::TempFolder folder;
  io::PosixFileSystem files;
  std::filesystem::path file;
};

TEST_F(KeptProfile, IsWholeAndUsedWhereItWasMade) {
  EXPECT_THAT(load(2), AllOf(HasSubstr("ebb probe"), HasSubstr("/ rule of thumb")));
  std::vector<BenchProgress> told;
  const std::string drive = folder.path().string() + ":64MiB";
  const ProbeResult result = probe({.device = parse_word<DeviceKind>(device, "--device"),
                                    .threads = 2,
                                    .seconds = 0,
                                    .disk = {parse_disk_folder(drive)},
                                    .out = ""},
                                   [&](const BenchProgress& p) { told.push_back(p); });
  EXPECT_EQ(result.file, file.string());
  EXPECT_EQ(told.back().done, 1);
  EXPECT_GT(told.size(), 20u);
  for (std::size_t i = 1; i < told.size(); ++i) EXPECT_GE(told[i].done, told[i - 1].done);

  const Json json = parse_json(io::read_text(files, file, kMiB), file.string());
  EXPECT_EQ(json.dump(2) + "\n", result.json);
  const plan::Profile profile = plan::parse_profile(json, "kept");
  for (const plan::ProfileField& field : plan::profile_fields()) {
    EXPECT_GT(profile.*field.figure, 0) << field.name;
    EXPECT_EQ((profile.*field.figure).source, "measured") << field.name;
  }
  for (const char* variant : {"fp32", "bf16 states", "int8 states"}) {
    EXPECT_TRUE(profile.variants.contains(variant)) << variant;
  }
  EXPECT_EQ(json.at("tables").at("link_bytes_per_second").size(), 4u);
  EXPECT_THAT(load(2), AllOf(HasSubstr("Speeds were measured"), HasSubstr("/ measured")));
}

TEST_F(KeptProfile, IsNotUsedWhereItIsStale) {
  measure();
  EXPECT_THAT(load(1), AllOf(HasSubstr("stale"), HasSubstr("threads was 2 and is 1"),
                             HasSubstr("ebb probe"), HasSubstr("/ rule of thumb")));
  Json json = parse_json(io::read_text(files, file, kMiB), "kept");
  json["fingerprint"]["ebb"] = "0.0.0";
  io::write_text_atomically(files, file, json.dump());
  EXPECT_THAT(load(2), AllOf(HasSubstr("stale"), HasSubstr("0.0.0"), HasSubstr("/ rule of")));
  json.erase("fingerprint");
  io::write_text_atomically(files, file, json.dump());
  EXPECT_THAT(load(2), AllOf(HasSubstr("stale"), HasSubstr("/ rule of thumb")));
  // A cache that is broken stops nobody.
  io::write_text_atomically(files, file, "{");
  EXPECT_THAT(load(2), AllOf(HasSubstr(file.string()), HasSubstr("/ rule of thumb")));
}

TEST_F(KeptProfile, AFileThatIsAskedForIsUsed) {
  measure();
  const std::string mine = (folder / "mine.json").string();
  files.rename(file, mine);
  EXPECT_THAT(load(2), HasSubstr("/ rule of thumb"));
  EXPECT_THAT(load(2, mine),
              AllOf(HasSubstr(mine), Not(HasSubstr("another")), HasSubstr("/ measured")));
  EXPECT_THAT(load(1, mine),
              AllOf(HasSubstr("another machine: threads was 2"), HasSubstr("/ measured")));
  io::write_text_atomically(files, mine, "[]");
  EXPECT_THROW(load(2, mine), FormatError);
  plan::Profile other = device == "cpu" ? plan::rough_gpu_profile(2) : plan::rough_cpu_profile(2);
  io::write_text_atomically(files, mine, plan::to_json(other).dump());
  EXPECT_THROW(load(2, mine), ConfigError);
}

}  // namespace
}  // namespace ebb::measure
