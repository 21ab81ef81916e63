// Models in one file and in several: what the index may say, and what it must not.
#include "files/weight_files.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "files/made_files.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "(no FormatError)";
}

constexpr const char* kIndex = R"({
  "metadata": {"total_size": 12, "more": [{"deep": 1}]},
  "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"}
})";

TEST(SafetensorsIndexTest, ReadsNamesFilesAndTheSum) {
  const SafetensorsIndex index = parse_index(kIndex, "i");
  EXPECT_EQ(index.files.size(), 3u);
  EXPECT_EQ(index.files.find("c")->second, "model-1.safetensors");
  EXPECT_EQ(index.total_bytes, 12);
  EXPECT_THAT(index.file_names(), ElementsAre("model-1.safetensors", "model-2.safetensors"));
  const auto total = [](const std::string& number) {
    return parse_index(
               R"({"weight_map":{"a":"a.safetensors"},"metadata":{"total_size":)" + number + "}}",
               "i")
        .total_bytes;
  };
  EXPECT_EQ(total("7.0"), 7);
  EXPECT_EQ(total("\"7\""), std::nullopt);
  EXPECT_EQ(total("-1"), std::nullopt);
  EXPECT_EQ(total("1e300"), std::nullopt);
  EXPECT_EQ(total("18446744073709551615"), std::nullopt);
}

struct Malformed {
  std::string text;
  const char* error;
};

TEST(SafetensorsIndexTest, RefusesWhatIsNoIndex) {
  const auto map = [](const std::string& value) { return "{\"weight_map\": " + value + "}"; };
  const auto file = [&](const std::string& name) { return map("{\"t\": \"" + name + "\"}"); };
  const Malformed cases[] = {
      {"", "expected JSON"},
      {"{", "expected JSON"},
      {kIndex + std::string("x"), "expected JSON"},
      {"[]", "expected an object, found a list"},
      {"7", "expected an object, found the number 7"},
      {"{}", "'weight_map' is missing"},
      {R"({"metadata": {"weight_map": {"t": "a.safetensors"}}})", "'weight_map' is missing"},
      {map("{}"), "expected tensors, found none"},
      {map("[]"), "weight_map: expected an object from tensors to files, found a list"},
      {map("null"), "found null"},
      {map("\"a.safetensors\""), "found the text 'a.safetensors'"},
      {map("{\"t\": 1}"), "tensor 't': expected the name of a file, found the number 1"},
      {map("{\"t\": {}}"), "tensor 't': expected the name of a file, found an object"},
      {map("{\"t\": [\"a.safetensors\"]}"), "tensor 't': expected the name of a file"},
      {map("{\"t\": \"a.safetensors\", \"t\": \"b.safetensors\"}"), "found 't' twice"},
      {R"({"weight_map": {"t": "a.safetensors"}, "weight_map": {}})", "weight_map: expected once"},
      {file("../a.safetensors"), "found '../a.safetensors'"},
      {file("/etc/a.safetensors"), "found '/etc/a.safetensors'"},
      {file("sub/a.safetensors"), "in the same folder, found 'sub/a.safetensors'"},
      {file("..\\\\a.safetensors"), "in the same folder"},
      {file("..safetensors"), "in the same folder"},
      {file(""), "in the same folder"},
      {file("a.bin"), "a .safetensors file in the same folder, found 'a.bin'"},
      {file("a\\u0000.safetensors"), "in the same folder"},
      {file("a\\n.safetensors"), "found 'a?.safetensors'"},
      {file(std::string(300, 'a') + ".safetensors"), "in the same folder"},
      {"{\"x\": " + std::string(100000, '['), "nested deeper"},
      {std::string("{\"weight_map\":\0{}}", 18), "a zero byte"},
      {"{\"weight_map\": {\"\xff\": \"a.safetensors\"}}", "expected JSON in UTF-8"},
  };
  for (const Malformed& malformed : cases) {
    const std::string error = error_of([&] { parse_index(malformed.text, "some/index.json"); });
    EXPECT_THAT(error, AllOf(HasSubstr("some/index.json"), HasSubstr(malformed.error),
                             HasSubstr("Get the index again")))
        << malformed.text.substr(0, 100);
    EXPECT_LT(error.size(), 1000u);
  }
}

TEST(SafetensorsIndexTest, DamagedTextIsAnErrorOrAValidIndex) {
  constexpr unsigned kSeed = 3;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kIndex;
    for (int i = 0; i < 1 + round % 5; ++i)
      text[random() % text.size()] = "{}[]\",:0123456789\\u\xff"[random() % 21];
    try {
      parse_index(text, "i");
    } catch (const FormatError&) {
    }
  }
}

class WeightFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    write_safetensors(files, folder / "model-1.safetensors",
                      {bytes_tensor("a"), bytes_tensor("c")});
    write_safetensors(files, folder / "model-2.safetensors", {bytes_tensor("b")});
    write_text(files, folder / std::string(kIndexName), kIndex);
  }

  std::string refusal() {
    return error_of([&] { WeightFiles(files, folder.path()); });
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
};

TEST_F(WeightFilesTest, OpensAllFilesOrTheSingleOne) {
  const WeightFiles sharded(files, folder.path());
  ASSERT_EQ(sharded.files().size(), 2u);
  EXPECT_EQ(sharded.path(), folder / std::string(kIndexName));
  EXPECT_NE(sharded.files()[0].find("c"), nullptr);
  EXPECT_NE(sharded.files()[1].find("b"), nullptr);
  write_safetensors(files, folder / std::string(kWeightsName), {bytes_tensor("whole")});
  const WeightFiles single(files, folder.path());
  ASSERT_EQ(single.files().size(), 1u);
  EXPECT_FALSE(single.index());
  EXPECT_EQ(single.path(), folder / std::string(kWeightsName));
}

TEST_F(WeightFilesTest, AWrongSumOfBytesIsNoReasonToRefuse) {
  write_text(files, folder / std::string(kIndexName),
             R"({"weight_map": {"a": "model-1.safetensors", "c": "model-1.safetensors"},
                 "metadata": {"total_size": 99999}})");
  EXPECT_EQ(WeightFiles(files, folder.path()).index()->total_bytes, 99999);
}

TEST_F(WeightFilesTest, FilesThatDoNotMatchTheIndex) {
  const std::string index = (folder / std::string(kIndexName)).string();
  const auto refused = [&](const std::string& what) {
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr(index), HasSubstr(what), HasSubstr("get all its files again")));
  };
  files.remove_all(folder / "model-2.safetensors");
  refused("it names the file 'model-2.safetensors', which is not in the folder");
  write_safetensors(files, folder / "model-2.safetensors", {bytes_tensor("x"), bytes_tensor("b")});
  refused("the file 'model-2.safetensors' holds tensor 'x', which the index does not name");
  write_safetensors(files, folder / "model-2.safetensors", {});
  refused("tensor 'b' should be in 'model-2.safetensors', and is not");
  write_safetensors(files, folder / "model-2.safetensors", {bytes_tensor("a"), bytes_tensor("b")});
  refused(
      "tensor 'a' should be in 'model-1.safetensors' alone, and is also in 'model-2.safetensors'");
  write_text(files, folder / "model-2.safetensors", "short");
  EXPECT_THAT(refusal(), HasSubstr("model-2.safetensors' is not a valid safetensors file"));
}

TEST_F(WeightFilesTest, FoldersInOtherFormats) {
  files.remove_all(folder / std::string(kIndexName));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'model-1.safetensors' without an index"),
                               HasSubstr("model.safetensors.index.json")));
  files.remove_all(folder / "model-1.safetensors");
  files.remove_all(folder / "model-2.safetensors");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(folder.path().string()), HasSubstr("found no weights"),
                               HasSubstr("Get the folder again")));
  for (const auto& [name, advice] : {std::pair{"pytorch_model.bin", "safe_serialization=True"},
                                     std::pair{"model.gguf", "Give that file itself"}}) {
    write_text(files, folder / name, "x");
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr(name), HasSubstr("Ebb reads weights from"), HasSubstr(advice)));
    files.remove_all(folder / name);
  }
}

}  // namespace
}  // namespace ebb::files
