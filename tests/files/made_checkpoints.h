// Small checkpoints in a folder of a test's own, and a look at what is left of them.
#pragma once

#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "files/safetensors.h"
#include "io/fault_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "io/unsynced_files.h"

namespace ebb::files {

namespace fs = std::filesystem;

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

// A checkpoint as training writes one: tensors in pieces, a JSON file, and a file whose writer
// forgot to sync. `flavor` tells two saves of one step apart.
inline void save(io::FileSystem& files, const fs::path& root, std::int64_t step,
                 const std::string& flavor) {
  CheckpointWriter writer(files, root, step);
  const std::string data(64, flavor.front());
  SafetensorsWriter weights(files, writer.path("weights.safetensors"),
                            {{"a", StoredType::bf16, {4, 4}}, {"b", StoredType::f32, {8}}});
  weights.write(std::as_bytes(std::span(data)).first(40));
  weights.write(std::as_bytes(std::span(data)).subspan(40));
  const WrittenFile written = weights.finish();
  writer.add_file("weights.safetensors", written.bytes, written.digest);
  writer.write_json("run.json", {{"step", step}, {"flavor", flavor}});
  files.create(writer.path("notes.txt"))->write(0, std::as_bytes(std::span(flavor)));
  Digest digest;
  digest.add(std::as_bytes(std::span(flavor)));
  writer.add_file("notes.txt", static_cast<Bytes>(flavor.size()), digest.hex());
  writer.publish();
}

class FolderTest : public testing::Test {
 protected:
  // "step flavor" of the latest checkpoint after it was verified; "none" without one.
  std::string latest() {
    const std::optional<fs::path> folder = latest_checkpoint(files, root);
    if (!folder) return "none";
    verify(files, *folder);
    const auto run = nlohmann::json::parse(io::read_text(files, *folder / "run.json", 1000));
    const SafetensorsReader weights(files, *folder / "weights.safetensors");
    EXPECT_NE(weights.find("a"), nullptr);
    return fmt::format("{} {}", run["step"].get<int>(), run["flavor"].get<std::string>());
  }

  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const fs::path& entry : files.list(root)) found.push_back(entry.filename().string());
    return found;
  }

  // Runs `act` on `prepare`d files once for every operation it does, with a crash there, and lets
  // `check` look at the disk after each kind of loss of power. Where `act` came to its end, what it
  // promises must hold after a loss all the same: `check(true)`.
  void crash_everywhere(const std::function<void()>& prepare,
                        const std::function<void(io::FileSystem&)>& act,
                        const std::function<void(bool ended)>& check) {
    for (std::int64_t n = 1;; ++n) {
      SCOPED_TRACE(fmt::format("crash at operation {}", n));
      files.remove_all(root);
      prepare();
      io::FaultFileSystem fault(files, folder.path());
      fault.crash_at(n);
      const std::string error = error_of([&] { act(fault); });
      ASSERT_EQ(error == "(no error)", !fault.crashed()) << error;
      fault.after_each_loss([&](const std::string& what) {
        SCOPED_TRACE(what);
        check(!fault.crashed());
      });
      if (!fault.crashed()) {
        EXPECT_GT(n, 5) << "hardly anything was done";
        return;
      }
      if (HasFailure()) return;
    }
  }

  io::TempFolder folder;
  io::UnsyncedFiles files;
  fs::path root = folder / "run";
};

}  // namespace ebb::files
