#include "base/cgroup.h"

#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "io/temp_folder.h"

namespace ebb {
namespace {

class Cgroup : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    const std::filesystem::path path = mounts_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  CgroupLimits limits(const std::string& self) const { return cgroup_limits(mounts_.path(), self); }

 private:
  io::TempFolder mounts_;
};

constexpr double kNoCpus = std::numeric_limits<double>::infinity();
constexpr Bytes kNoMemory = std::numeric_limits<Bytes>::max();

TEST_F(Cgroup, NoFilesAreNoLimit) {
  for (const char* self : {"", "0::/\n", "0::/not/there\n", "no colons", "1:cpu:/a/../../b\n"}) {
    EXPECT_EQ(limits(self).cpus, kNoCpus) << self;
    EXPECT_EQ(limits(self).memory, kNoMemory) << self;
  }
}

TEST_F(Cgroup, VersionTwoOfAContainerThatSeesItsGroupAsTheRoot) {
  put("cpu.max", "150000 100000\n");
  put("memory.max", "2147483648\n");
  EXPECT_EQ(limits("0::/\n").cpus, 1.5);
  EXPECT_EQ(limits("0::/\n").memory, Bytes{1} << 31);
  // The machine's own name of the group, which is not seen here.
  EXPECT_EQ(limits("0::/system.slice/docker-1.scope\n").cpus, 1.5);
}

TEST_F(Cgroup, TheTightestGroupAboveCounts) {
  put("cpu.max", "max 100000\n");
  put("user.slice/cpu.max", "200000 100000\n");
  put("user.slice/app/cpu.max", "800000 100000\n");
  put("user.slice/app/memory.max", "max\n");
  put("other/cpu.max", "1000 100000\n");
  EXPECT_EQ(limits("0::/user.slice/app\n").cpus, 2.0);
  EXPECT_EQ(limits("0::/user.slice/app\n").memory, kNoMemory);
  EXPECT_EQ(limits("0::/\n").cpus, kNoCpus);
}

TEST_F(Cgroup, VersionOneHasAFolderForItsControllers) {
  put("cpu,cpuacct/pod/cpu.cfs_quota_us", "50000\n");
  put("cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
  put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/pod/memory.limit_in_bytes", "4096\n");
  const std::string self = "7:memory:/pod\n4:cpu,cpuacct:/pod\n1:name=systemd:/pod\n0::/pod\n";
  EXPECT_EQ(limits(self).cpus, 0.5);
  EXPECT_EQ(limits(self).memory, 4096);
  EXPECT_EQ(limits("7:memory:/\n").memory, kNoMemory);
}

TEST_F(Cgroup, VersionOnesWordForNoQuota) {
  put("cpu/cpu.cfs_quota_us", "-1\n");
  put("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits("1:cpu:/\n").cpus, kNoCpus);
}

TEST_F(Cgroup, WhatIsLeftIsTheLimitLessWhatIsHeldAndNotCachedFiles) {
  put("memory.max", "1000000\n");
  put("memory.current", "600000\n");
  put("memory.stat", "anon 350000\nfile 250000\ninactive_file 200000\nactive_file 50000\n");
  EXPECT_EQ(limits("0::/\n").memory, 1000000);
  EXPECT_EQ(limits("0::/\n").memory_left, 600000);
}

TEST_F(Cgroup, TheHighMarkOfAGroupAboveLeavesLess) {
  put("memory.max", "max\n");
  put("memory.high", "700000\n");
  put("memory.current", "300000\n");
  put("app/memory.max", "500000\n");
  put("app/memory.current", "50000\n");
  EXPECT_EQ(limits("0::/app\n").memory, 500000);
  EXPECT_EQ(limits("0::/app\n").memory_left, 400000);
  EXPECT_EQ(limits("0::/\n").memory_left, 400000);
}

TEST_F(Cgroup, VersionOneCountsWhatIsLeftWithNamesOfItsOwn) {
  put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/memory.usage_in_bytes", "123456789\n");
  put("memory/pod/memory.limit_in_bytes", "8192000\n");
  put("memory/pod/memory.usage_in_bytes", "8000000\n");
  put("memory/pod/memory.stat", "inactive_file 1\ntotal_inactive_file 1000000\n");
  EXPECT_EQ(limits("7:memory:/pod\n").memory_left, 1192000);
  EXPECT_EQ(limits("7:memory:/\n").memory_left, kNoMemory);
}

TEST_F(Cgroup, AGroupThatHoldsMoreThanItsLimitLeavesNothing) {
  put("memory.max", "1000\n");
  put("memory.current", "2000\n");
  EXPECT_EQ(limits("0::/\n").memory_left, 0);
}

TEST_F(Cgroup, BothVersionsAtOnce) {
  put("unified/app/cpu.max", "300000 100000\n");
  put("cpu/app/cpu.cfs_quota_us", "400000\n");
  put("cpu/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits("1:cpu:/app\n0::/app\n").cpus, 3.0);
}

}  // namespace
}  // namespace ebb
