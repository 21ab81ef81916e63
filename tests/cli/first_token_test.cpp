// When the first token of a text came, and what it waited for.
#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class FirstToken : public SmallCommands {};

TEST_F(FirstToken, LoadingAndPromptAreSaidApart) {
  const Arguments generate = {"generate", "--model",  "preset:tiny",  "--device", "cpu",
                              "--prompt", "the tide", "--max-tokens", "8",        "--temperature",
                              "0"};
  const Finished end = run_ebb(generate);
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.err, ContainsRegex("First token after [0-9.]+ [mu]?s: loading [0-9.]+ [mu]?s, "
                                     "prompt [0-9.]+ [mu]?s\n"));
  EXPECT_THAT(end.out, Not(HasSubstr("First token")));
}

}  // namespace
}  // namespace ebb::cli
