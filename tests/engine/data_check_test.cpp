#include "engine/data_check.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class DataCheck : public testing::Test {
 protected:
  DataCheck() {
    for (int i = 0; i < 20000; ++i) text += std::to_string(i) + " tides\n";
    write_file(folder / "data/a.txt", text);
    write_file(folder / "data/b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    options.data = {(folder / "data").string()};
    options.sequence = 32;
  }

  TrainingData open() const {
    return TrainingData(disk, options, tokenizer, 300, 1, [](const std::string&) {});
  }

  files::TrainingState recorded() const {
    files::TrainingState state;
    TrainingData data = open();
    record_data(state, data, note);
    return state;
  }

  std::string refusal(files::TrainingState state) const {
    TrainingData data = open();
    try {
      compare_all_data(state, data, false, note);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  bool known_at_once(const files::TrainingState& state) const {
    const TrainingData data = open();
    try {
      compare_known_data(state, data, false);
    } catch (const ConfigError&) {
      return true;
    }
    return false;
  }

  mutable io::PosixFileSystem disk;
  io::TempFolder folder;
  std::string text;
  TrainOptions options;
  files::ModelTokenizer tokenizer = files::load_tokenizer(disk, {}, "bytes");
  mutable std::string notes;
  const Note note = [this](const std::string& line) { notes += line + "\n"; };
};

TEST_F(DataCheck, TellsWhatIsKnownAtOnceFromWhatMustBeRead) {
  const files::TrainingState state = recorded();
  EXPECT_FALSE(known_at_once(state));
  EXPECT_EQ(refusal(state), "");
  std::string other = text;
  other[other.size() - 100] ^= 1;
  write_file(folder / "data/a.txt", other);  // not read when it is opened
  EXPECT_FALSE(known_at_once(state));
  EXPECT_NE(refusal(state).find("'a.txt': other content of the same size"), std::string::npos);
  write_file(folder / "data/a.txt", text);
  write_file(folder / "data/b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"tWo\"}\n");
  EXPECT_TRUE(known_at_once(state));
  write_file(folder / "data/b.jsonl", "{\"text\": \"one\"}\n");
  EXPECT_TRUE(known_at_once(state));
}

// A checkpoint that kept only beginnings: compared as it was, and the next one keeps all.
TEST_F(DataCheck, OldCheckpointsAreComparedAsTheyWere) {
  files::TrainingState state;
  state.data = {{"beginnings", open().beginnings_digest()}};
  TrainingData data = open();
  EXPECT_NO_THROW(compare_known_data(state, data, false));
  files::TrainingState now = state;
  compare_all_data(now, data, false, note);
  EXPECT_NE(notes.find("first 64 KiB"), std::string::npos) << notes;
  EXPECT_EQ(now.data, recorded().data);
  std::string other = text;
  other[100] ^= 1;
  write_file(folder / "data/a.txt", other);
  EXPECT_NE(refusal(state).find("another name, size or beginning"), std::string::npos);
  EXPECT_TRUE(known_at_once(state));
  TrainingData changed = open();
  compare_all_data(state, changed, true, note);
  EXPECT_EQ(state.accepted_changes.size(), 1u);
}

TEST_F(DataCheck, StatesWithoutContentsAreOld) {
  files::TrainingState state = recorded();
  state.numerics_key = {{"data", {{"digest", "abc"}}}};
  state.accepted_changes.push_back({{"step", 1}, {"changes", {"x"}}});
  io::PosixFileSystem files;
  write_file(folder / "now" / std::string(files::kTrainingName), to_json(state).dump());
  const files::TrainingState same = files::read_training_state(files, folder / "now");
  EXPECT_EQ(same.data, state.data);
  EXPECT_EQ(same.accepted_changes, state.accepted_changes);
  Json old = to_json(state);
  old.erase("data");
  old.erase("accepted_changes");
  write_file(folder / "old" / std::string(files::kTrainingName), old.dump());
  const files::TrainingState before = files::read_training_state(files, folder / "old");
  EXPECT_EQ(before.data, Json({{"beginnings", "abc"}}));
  EXPECT_TRUE(before.accepted_changes.empty());
}

// Data may take hours to read: whoever stops a run before that does not wait for it.
TEST_F(DataCheck, ASaveThatIsToldNotToGoOnKeepsBeginningsUntilTheNextOne) {
  files::TrainingState state;
  {
    // Not to be digested before it is asked for.
    std::filesystem::resize_file(folder / "data/a.txt", std::uintmax_t{64} << 30);
    TrainingData data = open();
    record_data(state, data, note, [] { return false; });
    EXPECT_NE(notes.find("first 64 KiB"), std::string::npos) << notes;
    EXPECT_EQ(state.data, Json({{"beginnings", data.beginnings_digest()}}));
    EXPECT_NO_THROW(compare_known_data(state, data, false));
  }
  write_file(folder / "data/a.txt", text);
  TrainingData data = open();
  record_data(state, data, note);
  EXPECT_EQ(state.data, recorded().data);
}

// What was trained is saved; that the file changed meanwhile is asked about when the run goes on.
TEST_F(DataCheck, AFileThatChangesDuringTheRunIsToldAndAskedAbout) {
  files::TrainingState state;
  {
    // Opened before it is changed, and too large to be digested before that.
    std::filesystem::resize_file(folder / "data/a.txt", std::uintmax_t{8} << 30);
    TrainingData data = open();
    write_file(folder / "data/a.txt", text);
    record_data(state, data, note);
  }
  EXPECT_NE(notes.find("a.txt' has changed"), std::string::npos) << notes;
  EXPECT_NE(notes.find("--accept-changed-data"), std::string::npos) << notes;
  EXPECT_EQ(state.data["training"]["files"][0]["digest"], "");
  state.data["training"]["files"][0]["bytes"] = text.size();
  EXPECT_NE(refusal(state).find("'a.txt': it changed during the run"), std::string::npos);
}

// A list of very many files is not kept, their digest is.
TEST_F(DataCheck, ManyFilesAreComparedWithoutAList) {
  files::TrainingState state = recorded();
  state.data["training"].erase("files");
  EXPECT_EQ(refusal(state), "");
  EXPECT_FALSE(known_at_once(state));
  std::string other = text;
  other[other.size() - 100] ^= 1;
  write_file(folder / "data/a.txt", other);
  EXPECT_NE(refusal(state).find("other files or other content"), std::string::npos);
}

}  // namespace
}  // namespace ebb::engine
