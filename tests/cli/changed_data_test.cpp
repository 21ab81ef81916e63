// The data of a run is what its checkpoint says, to the last byte; changes are refused by name or
// accepted and remembered.
#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

class ChangedData : public SmallCommands {
 protected:
  ChangedData() {
    std::string text, lines;
    for (int i = 0; i < 2500; ++i) {
      text += fmt::format("the tide number {} comes in and goes out\n", i);
      lines += fmt::format("{{\"text\": \"the tide number {} comes in and goes out\"}}\n", i);
    }
    write_file(at("text.txt"), text);
    write_file(at("lines.jsonl"), lines);
    EXPECT_GT(text.size(), 80000u);
  }

  Arguments train_on(const Arguments& files, const std::string& out, int steps) const {
    return Arguments{"train", "--model", "preset:tiny", "--data"} + files +
           Arguments{"--out", out, "--schedule", "constant"} + batch(steps);
  }

  // Far behind the beginning, without another size.
  static void change_byte(const std::string& file, char to = '#') {
    std::string bytes = read_file(file);
    bytes[bytes.size() - 300] = to;
    write_file(file, bytes);
  }

  static Finished succeed(const Arguments& command) {
    Finished run = run_ebb(command);
    EXPECT_EQ(run.code, 0) << run.err;
    return run;
  }

  static void expect_refused(const Arguments& command, const std::vector<std::string>& words) {
    const Finished run = run_ebb(command);
    EXPECT_EQ(run.code, 1) << run.out;
    for (const std::string& word : words) EXPECT_THAT(run.err, HasSubstr(word));
  }

  Json summary_of(const Arguments& command) const {
    succeed(command + Arguments{"--summary", at("summary.json")});
    return Json::parse(read_file(at("summary.json")));
  }
};

const Arguments kResume = {"--resume"};
const Arguments kAccept = {"--resume", "--accept-changed-data"};

TEST_F(ChangedData, EveryByteOfEveryKindOfFileIsCompared) {
  succeed({"tokenize", "--tokenizer", "bytes", "--data", at("text.txt"), "--out", at("t.tokens")});
  for (const std::string& name : {"text.txt", "lines.jsonl", "t.tokens"}) {
    const std::string file = at(name), out = at("run_" + name);
    succeed(train_on({file}, out, 2));
    const std::string before = read_file(file);
    change_byte(file, name == std::string("t.tokens") ? '\0' : '#');
    expect_refused(train_on({file}, out, 4) + kResume,
                   {"'" + name + "': other content of the same size", "Restore the files",
                    "--accept-changed-data", "another --out"});
    write_file(file, before);
    succeed(train_on({file}, out, 3) + kResume);
    if (name == std::string("t.tokens")) continue;  // whose header says its size
    write_file(file, before + before);
    expect_refused(train_on({file}, out, 4) + kResume,
                   {"'" + name + "': ", " bytes in the checkpoint, "});
  }
}

TEST_F(ChangedData, FilesThatCameOrWentAreNamed) {
  fs::create_directories(at("folder"));
  for (const char* name : {"folder/a.txt", "folder/b.txt", "folder/c.txt"}) {
    write_file(at(name), read_file(at("text.txt")));
  }
  succeed(train_on({at("folder")}, at("run"), 2));
  fs::rename(at("folder/b.txt"), at("folder/d.txt"));
  expect_refused(train_on({at("folder")}, at("run"), 4) + kResume,
                 {"'b.txt': missing now", "'d.txt': new"});
  fs::rename(at("folder/d.txt"), at("folder/b.txt"));
  expect_refused(
      train_on({at("folder/b.txt"), at("folder/a.txt"), at("folder/c.txt")}, at("run"), 4) +
          kResume,
      {"another place"});
  succeed(train_on({at("folder")}, at("run"), 4) + kResume);
}

TEST_F(ChangedData, AcceptedChangesAreToldKeptAndNotAskedForAgain) {
  const std::string file = at("lines.jsonl");
  succeed(train_on({file}, at("run"), 2));
  change_byte(file);
  const Finished accepted = succeed(train_on({file}, at("run"), 3) + kAccept +
                                    Arguments{"--summary", at("summary.json")});
  EXPECT_THAT(accepted.out,
              AllOf(HasSubstr("--accept-changed-data: the data is not what the checkpoint"),
                    HasSubstr("'lines.jsonl': other content"), HasSubstr("at item ")));
  const Json changes = Json::parse(read_file(at("summary.json")))["accepted_data_changes"];
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0]["step"], 2);
  EXPECT_THAT(changes[0]["changes"][0].get<std::string>(), HasSubstr("lines.jsonl"));

  const Json later = summary_of(train_on({file}, at("run"), 5) + kResume);
  EXPECT_EQ(later["accepted_data_changes"], changes);
  change_byte(file, '%');
  expect_refused(train_on({file}, at("run"), 6) + kResume, {"other content"});
}

TEST_F(ChangedData, FewerItemsThanTheRunHadSeenAreTakenFromTheNextEpochOn) {
  const std::string file = at("lines.jsonl");
  succeed(train_on({file}, at("run"), 6));
  write_file(file,
             "{\"text\": \"one\"}\n{\"text\": \"two, which is longer than the other line\"}\n");
  const Finished run = succeed(train_on({file}, at("run"), 9) + kAccept);
  EXPECT_THAT(run.out, HasSubstr("at item 0 of epoch 1"));
  succeed(train_on({file}, at("run"), 10) + kResume);
}

TEST_F(ChangedData, DataToValidateOnIsComparedToo) {
  const auto with = [&](int steps, const Arguments& more) {
    return train_on({at("lines.jsonl")}, at("run"), steps) + more;
  };
  const Arguments validated = {"--eval-data", at("text.txt"), "--eval-batches", "1"};
  succeed(with(2, {}));
  succeed(with(3, validated + kResume));  // from now on
  change_byte(at("text.txt"));
  expect_refused(with(4, validated + kResume),
                 {"data to validate on 'text.txt': other content of the same size"});
  succeed(with(4, validated + kAccept));
  succeed(with(5, validated + kResume));
  succeed(with(6, kResume));
}

// What the run writes into its data is not data, at the start and when it goes on.
TEST_F(ChangedData, ARunInsideItsDataIsNotData) {
  fs::create_directories(at("folder"));
  write_file(at("folder/a.txt"), read_file(at("text.txt")));
  const auto inside = [&](int steps) {
    return train_on({at("folder")}, at("folder/run"), steps) +
           Arguments{"--save-every",          "1",         "--trace",
                     at("folder/trace.json"), "--summary", at("folder/summary.json")};
  };
  const auto digest = [&] {
    return Json::parse(read_file(at("folder/summary.json")))["weights_digest"];
  };
  succeed(inside(2));
  const Finished rest = succeed(inside(4) + kResume);
  EXPECT_THAT(rest.out, HasSubstr("folder/run (the run itself writes it)"));
  EXPECT_THAT(rest.out, Not(HasSubstr("changed")));
  const Json weights = digest();
  const Json whole = summary_of(train_on({at("folder/a.txt")}, at("whole"), 4));
  EXPECT_EQ(weights, whole["weights_digest"]);
}

}  // namespace
}  // namespace ebb::cli
