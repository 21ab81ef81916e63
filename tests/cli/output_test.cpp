// Output that cannot be written is an error of every verb.
#include <fcntl.h>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::HasSubstr;

class OutputTest : public SmallCommands {};

void to_full_disk() {
  const int full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDOUT_FILENO);
}

TEST_F(OutputTest, AFullDiskIsAnErrorOfEveryVerb) {
  const std::string model = trained("model", 1);
  const std::vector<Arguments> commands = {
      {"--help"},
      {"--version"},
      {"train", "--help"},
      train(at("run"), 2),
      Arguments{"plan", "--model", "preset:tiny"} + batch(1),
      {"generate", "--model", model, "--prompt", "a", "--max-tokens", "2"},
      {"generate", "--model", model, "--prompt", "a", "--max-tokens", "2", "--json"},
      {"inspect", model},
      {"tokenize", "--tokenizer", "bytes", "--data", data, "--out", at("tokens")},
      {"probe", "--seconds", "0.01", "--threads", "1", "--out", at("profile.json")},
      {"bench", "optimizer", "--parameters", "100000", "--seconds", "0.001", "--rule", "sgd",
       "--threads", "1"},
  };
  for (const Arguments& arguments : commands) {
    SCOPED_TRACE(arguments.front() + " " + arguments.back());
    Process process(arguments, to_full_disk);
    const Finished run = process.wait();
    EXPECT_EQ(run.signal, 0);
    EXPECT_EQ(run.code, 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("cannot write the output"));
  }
}

}  // namespace
}  // namespace ebb::cli
