// Saved states: resume is exact into any placement, formats convert, and a file that is not what it
// should be changes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "base/digest.h"
#include "ebb/error.h"
#include "hand_run.h"
#include "io/fault_file_system.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "states/convert.h"

namespace ebb::hybrid {
namespace {

Settings settings_of(const std::string& states, const std::string& format = "exact",
                     double offload = 1, std::int64_t chunk = 4096) {
  Settings s;
  s.states = states;
  if (states != "resident") s.offload_fraction = offload;
  s.state_format = format;
  s.chunk_parameters = chunk;
  s.threads = 2;
  s.seed = 3;
  return s;
}

struct Training {
  Loop loop;
  Optimizer optimizer;
  explicit Training(const Settings& settings,
                    const std::vector<TensorShape>& shapes = small_shapes(), std::uint64_t seed = 7)
      : loop(shapes, seed), optimizer(settings, loop.parameters(), nullptr) {}
  void steps(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) step_once(optimizer, loop, step);
  }
  std::string digests() {
    StateStore& store = optimizer.store();
    return store.weights_digest() + " " + store.moments_digest();
  }
};

class StateFileTest : public testing::Test {
 protected:
  io::PosixFileSystem files;
  io::TempFolder folder;

  std::filesystem::path path(const std::string& name = "state") { return folder / name; }
  void overwrite(const std::filesystem::path& file, std::int64_t at, char byte) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at < 0 ? static_cast<std::int64_t>(std::filesystem::file_size(file)) + at : at);
    stream.put(byte);
  }
};

TEST_F(StateFileTest, ResumeIsExactIntoAnyPlacement) {
  const std::vector<std::string> sites = {"resident", "stream", "host"};
  for (const std::string format : {"exact", "bf16", "int8"}) {
    Training whole(settings_of("resident", format));
    whole.steps(1, 6);
    for (const std::string& from : sites) {
      Training first(settings_of(from, format));
      first.steps(1, 3);
      first.optimizer.save(files, path());
      for (const std::string& to : sites) {
        // Other weights and another seed: the file's count.
        Settings settings = settings_of(to, format, 0.6, 8192);
        settings.seed = 77;
        Training second(settings, small_shapes(), 1234);
        second.optimizer.load(files, path(), nullptr);
        EXPECT_EQ(second.optimizer.steps(), 3);
        second.loop.seed = 7;
        second.steps(4, 6);
        EXPECT_EQ(second.digests(), whole.digests()) << format << ": " << from << " to " << to;
        for (std::size_t t = 0; t < whole.loop.tensors.size(); ++t) {
          EXPECT_EQ(second.loop.tensors[t].weight, whole.loop.tensors[t].weight);
        }
      }
    }
  }
}

TEST_F(StateFileTest, OtherRulesAndTypesResumeToo) {
  for (const std::string rule : {"adam", "lion", "sgd", "adagrad"}) {
    Settings settings = settings_of("stream");
    settings.rule.name = rule;
    const auto shapes = small_shapes(Type::fp32, Type::fp32);
    Training whole(settings, shapes);
    whole.steps(1, 4);
    Training first(settings, shapes);
    first.steps(1, 2);
    first.optimizer.save(files, path());
    Training second(settings, shapes, 5);
    second.optimizer.load(files, path(), nullptr);
    second.loop.seed = 7;
    second.steps(3, 4);
    EXPECT_EQ(second.digests(), whole.digests()) << rule;
  }
}

// States that were fetched for a step that was not made do not hide those of the file.
TEST_F(StateFileTest, LoadsAfterAStepThatWasNotMade) {
  Training whole(settings_of("stream"));
  whole.steps(1, 2);
  whole.optimizer.save(files, path());
  Training other(settings_of("stream"), small_shapes(), 1234);
  fail_once(other.optimizer, other.loop);
  other.optimizer.load(files, path(), nullptr);
  other.loop.seed = 7;
  whole.steps(3, 3);
  other.steps(3, 3);
  EXPECT_EQ(other.digests(), whole.digests());
}

TEST_F(StateFileTest, FilesOfEveryPlacementAreTheSameBytes) {
  std::string expected;
  for (const std::string states : {"resident", "stream", "host"}) {
    for (const std::int64_t chunk : {4096, 1 << 20}) {
      Training run(settings_of(states, "int8", 0.7, chunk));
      run.steps(1, 2);
      run.optimizer.save(files, path());
      std::ifstream stream(path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
      if (expected.empty()) expected = bytes;
      EXPECT_EQ(bytes, expected) << states << " in chunks of " << chunk;
    }
  }
}

// Moments of a tensor as fp32.
struct Moments {
  std::vector<float> first;
  std::vector<float> second;
};
Moments widened(Optimizer& optimizer, int p) {
  StateStore& store = optimizer.store();
  const states::StateKind kind = store.kind_of(p);
  const std::int64_t count = store.parameters()[static_cast<std::size_t>(p)].count;
  std::vector<std::byte> state(static_cast<std::size_t>(states::state_bytes(kind, count)));
  for (const Plane plane : moment_planes(kind)) {
    store.read(plane, p, 0, count, state.data() + states::offset_of(plane, kind, count));
  }
  Moments moments{std::vector<float>(static_cast<std::size_t>(count)),
                  std::vector<float>(static_cast<std::size_t>(count))};
  states::widen_moments(
      states::state_span(states::planes(state.data(), kind, count), kind, 0, count),
      moments.first.data(), moments.second.data());
  return moments;
}
// Rounded to the format, a tensor at a time: what is stored of them, widened again.
Moments rounded(const Moments& moments, kernels::StateFormat format) {
  const auto count = static_cast<std::int64_t>(moments.first.size());
  const states::StateKind kind{.format = format};
  std::vector<std::byte> state(static_cast<std::size_t>(states::state_bytes(kind, count)));
  const kernels::StateSpan span =
      states::state_span(states::planes(state.data(), kind, count), kind, 0, count);
  Moments result = moments;
  states::narrow_moments(moments.first.data(), moments.second.data(), span);
  states::widen_moments(span, result.first.data(), result.second.data());
  return result;
}

TEST_F(StateFileTest, FormatsConvert) {
  using kernels::StateFormat;
  const std::vector<StateFormat> formats = {StateFormat::exact, StateFormat::bf16,
                                            StateFormat::int8};
  for (const StateFormat from : formats) {
    for (const StateFormat to : formats) {
      Training first(settings_of("host", std::string(kernels::name_of(from))));
      first.steps(1, 3);
      first.optimizer.save(files, path());
      Training second(settings_of("stream", std::string(kernels::name_of(to)), 0.7, 8192));
      second.optimizer.load(files, path(), nullptr);
      EXPECT_EQ(second.optimizer.store().weights_digest(),
                first.optimizer.store().weights_digest());
      for (int p = 0; p < static_cast<int>(first.loop.tensors.size()); ++p) {
        const Moments before = widened(first.optimizer, p);
        const Moments expected = from == to ? before : rounded(before, to);
        const Moments found = widened(second.optimizer, p);
        EXPECT_EQ(found.first, expected.first) << name_of(from) << " to " << name_of(to);
        EXPECT_EQ(found.second, expected.second) << name_of(from) << " to " << name_of(to);
      }
      second.steps(4, 4);
    }
  }
}

TEST_F(StateFileTest, WhatIsNotTheStateChangesNothing) {
  Training saved(settings_of("stream"));
  saved.steps(1, 2);
  saved.optimizer.save(files, path());
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path()));

  const auto expect_refused = [&](Training& run, const std::string& name, const std::string& part) {
    const std::string before = run.digests();
    try {
      run.optimizer.load(files, path(name), nullptr);
      ADD_FAILURE() << name << " was loaded";
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_EQ(run.digests(), before) << name;
    run.steps(run.optimizer.steps() + 1, run.optimizer.steps() + 1);  // and it still works
  };
  Training other(settings_of("host"));
  std::filesystem::copy_file(path(), path("torn"));
  std::filesystem::resize_file(path("torn"), static_cast<std::uintmax_t>(size / 2));
  expect_refused(other, "torn", "");
  std::filesystem::copy_file(path(), path("flipped"));
  overwrite(path("flipped"), size / 2, '\x55');
  expect_refused(other, "flipped", "digest");
  std::filesystem::copy_file(path(), path("wrong_digest"));
  overwrite(path("wrong_digest"), -1, 'x');
  expect_refused(other, "wrong_digest", "digest");
  std::ifstream stream(path(), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  bytes.replace(bytes.find(R"("step":"2")"), 10, R"("step":"7")");
  std::ofstream(path("other_step"), std::ios::binary) << bytes;
  expect_refused(other, "other_step", "digest");

  auto fewer = small_shapes();
  fewer.pop_back();
  Training less(settings_of("host"), fewer);
  std::filesystem::copy_file(path(), path("more_parameters"));
  expect_refused(less, "more_parameters", "tensors");
  auto renamed = small_shapes();
  renamed[1].name = "gain";
  Training with_other_name(settings_of("host"), renamed);
  std::filesystem::copy_file(path(), path("other_name"));
  expect_refused(with_other_name, "other_name", "'gain.weight'");
  auto longer = small_shapes();
  longer[1].count += 1;
  Training with_other_size(settings_of("host"), longer);
  std::filesystem::copy_file(path(), path("other_size"));
  expect_refused(with_other_size, "other_size", "shape [34], found 66 bytes as BF16");
  Training wide(settings_of("host"), small_shapes(Type::fp32));
  std::filesystem::copy_file(path(), path("other_type"));
  expect_refused(wide, "other_type", "F32");
  Settings lion = settings_of("host");
  lion.rule.name = "lion";
  Training with_lion(lion);
  std::filesystem::copy_file(path(), path("other_rule"));
  expect_refused(with_lion, "other_rule", "adamw");

  EXPECT_THROW(other.optimizer.load(files, path("nowhere"), nullptr), IoError);
  other.steps(other.optimizer.steps() + 1, other.optimizer.steps() + 1);
}

TEST_F(StateFileTest, AFolderInTheWayIsLeftAlone) {
  Training run(settings_of("resident"));
  std::filesystem::create_directories(path("state.partial") / "precious");
  EXPECT_THROW(run.optimizer.save(files, path("state")), IoError);
  EXPECT_TRUE(std::filesystem::exists(path("state.partial") / "precious"));
}

// The metadata comes from outside too.
TEST_F(StateFileTest, MetadataIsChecked) {
  Training saved(settings_of("resident"));
  saved.optimizer.save(files, path());
  std::ifstream stream(path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    const std::size_t found = changed.find(from);
    ASSERT_NE(found, std::string::npos) << from;
    ASSERT_EQ(from.size(), to.size());
    changed.replace(found, from.size(), to);
    std::ofstream(path("changed"), std::ios::binary) << changed;
    EXPECT_THROW(saved.optimizer.load(files, path("changed"), nullptr), FormatError) << to;
  };
  with("\"step\":\"0\"", "\"step\":\"x\"");
  with("\"step\":\"0\"", "\"stop\":\"0\"");
  with("\"seed\":\"3\"", "\"seed\":\"\"3");
  with("\"version\":\"2\"", "\"version\":\"3\"");
  with("\"version\":\"2\"", "\"version\":\"1\"");
  with("\"state_format\":\"exact\"", "\"state_format\":\"exalt\"");
  // An older code, which would be read as other numbers.
  with("\"state_format\":\"exact\"", "\"state_format\":\"int8\" ");
  with("ebb optimizer state", "ebb optimiser state");
}

// Two tensors of one shape whose names are exchanged: every byte of data is where it was.
TEST_F(StateFileTest, TheDigestKnowsTheNames) {
  const std::vector<TensorShape> shapes = {{"one", 100}, {"two", 100}};
  Training saved(settings_of("resident"), shapes);
  saved.steps(1, 1);
  saved.optimizer.save(files, path());
  std::string bytes = io::read_text(files, path(), 1 << 20);
  for (const char* plane : {"weight", "low", "first", "second"}) {
    const std::string one = fmt::format("\"one.{}\"", plane);
    const std::string two = fmt::format("\"two.{}\"", plane);
    const std::size_t first = bytes.find(one);
    const std::size_t second = bytes.find(two);
    ASSERT_TRUE(first != bytes.npos && second != bytes.npos) << plane;
    bytes.replace(first, one.size(), two);
    bytes.replace(second, two.size(), one);
    io::write_text_atomically(files, path("swapped"), bytes);
    EXPECT_THROW(saved.optimizer.load(files, path("swapped"), nullptr), FormatError) << plane;
  }
}

TEST_F(StateFileTest, FilesOfVersionOneAreRead) {
  // The digest of what version 1 counted: the metadata's words and the planes.
  Training saved(settings_of("resident"));
  saved.steps(1, 2);
  saved.optimizer.save(files, path());
  std::string bytes = io::read_text(files, path(), 1 << 22);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const std::string words = "adamw exact 3 2";
  Digest digest;
  digest.add(std::as_bytes(std::span(words)));
  const auto planes = std::string_view(bytes).substr(8 + header, bytes.size() - 32 - 8 - header);
  digest.add(std::as_bytes(std::span(planes)));
  bytes.replace(bytes.size() - 32, 32, digest.hex());
  const std::string version = "\"version\":\"2\"";
  bytes.replace(bytes.find(version), version.size(), "\"version\":\"1\"");
  io::write_text_atomically(files, path("first"), bytes);
  Training found(settings_of("host"));
  found.optimizer.load(files, path("first"), nullptr);
  EXPECT_EQ(found.digests(), saved.digests());
}

// At every operation that can fail: the old file is still there, or the new one is complete.
TEST_F(StateFileTest, AFullDiskOrACrashLeavesTheLastGoodOne) {
  Training run(settings_of("stream"));
  run.steps(1, 1);
  run.optimizer.save(files, path());
  std::filesystem::copy_file(path(), path("old"));
  const std::string old = run.digests();
  run.steps(2, 2);
  const std::string now = run.digests();
  std::int64_t operations = 0;
  {
    io::FaultFileSystem counting(files);
    run.optimizer.save(counting, path("count"));
    operations = counting.counts().operations;
  }
  ASSERT_GT(operations, 5);
  for (std::int64_t nth = 1; nth <= operations + 1; ++nth) {
    SCOPED_TRACE(fmt::format("operation {} of {}", nth, operations));
    files.remove_all(path());
    std::filesystem::copy_file(path("old"), path());
    io::FaultFileSystem faulty(files, folder.path());
    faulty.crash_at(nth);
    if (nth <= operations) {
      EXPECT_THROW(run.optimizer.save(faulty, path()), IoError);
    } else {
      run.optimizer.save(faulty, path());
    }
    faulty.after_each_loss([&](const std::string& what) {
      SCOPED_TRACE(what);
      Training found(settings_of("resident"));
      found.optimizer.load(files, path(), nullptr);
      const std::string digests = found.digests();
      // What the caller was told to be saved is there for good.
      EXPECT_TRUE(nth <= operations ? digests == old || (digests == now && nth >= operations - 1)
                                    : digests == now);
    });
  }
  io::FaultFileSystem full(files);
  full.fail_write(3, ENOSPC);
  EXPECT_THROW(run.optimizer.save(full, path("full")), IoError);
  EXPECT_FALSE(files.exists(path("full")));
  EXPECT_FALSE(files.exists(path("full.partial"))) << "a failed save gives its space back";
}

}  // namespace
}  // namespace ebb::hybrid
