#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ebb/error.h"
#include "hwy/targets.h"

namespace ebb::kernels {
namespace {

class Isa : public testing::Test {
 protected:
  void SetUp() override { forget(); }
  void TearDown() override {
    unsetenv("EBB_ISA");
    forget();
  }
  static void forget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
};

TEST_F(Isa, EveryLevelCanBeForced) {
  for (const std::string& level : isa_levels()) {
    forget();
    setenv("EBB_ISA", level.c_str(), 1);
    use_isa_of_environment();
    EXPECT_EQ(isa_in_use(), level);
  }
}

TEST_F(Isa, WhatTheProcessorLacksIsRefusedAndChangesNothing) {
  const std::string before = isa_in_use();
  setenv("EBB_ISA", "avx9", 1);
  try {
    use_isa_of_environment();
    FAIL() << "accepted avx9";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("EBB_ISA=avx9"), std::string::npos) << text;
    EXPECT_NE(text.find(before), std::string::npos) << text;
  }
  EXPECT_EQ(isa_in_use(), before);
}

TEST_F(Isa, NotSetMeansTheBest) {
  const std::string best = isa_levels().front();
  setenv("EBB_ISA", "", 1);
  use_isa_of_environment();
  unsetenv("EBB_ISA");
  use_isa_of_environment();
  EXPECT_EQ(isa_in_use(), best);
}

}  // namespace
}  // namespace ebb::kernels
