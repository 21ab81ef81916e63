// GGUF files: what is read, and that everything that is wrong is told by name.
#include "files/gguf/gguf_files.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "files/made_files.h"
#include "files/made_gguf.h"
#include "io/memory_file.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

GgufHeader parse(const std::string& bytes) {
  io::MemoryFile file("model.gguf", std::make_shared<const std::string>(bytes));
  return read_gguf_header(file);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "(no FormatError)";
}

std::string refusal(const std::string& bytes) {
  return error_of([&] { parse(bytes); });
}

MadeGguf small() {
  MadeGguf made;
  made.value("general.architecture", "llama").value("a.number", std::uint32_t{7});
  made.list("a.list", std::vector<std::string>{"one", "", "three"});
  made.floats("two", {2, 3}, {1, 2, 3, 4, 5, 6}).floats("one", {1}, {9});
  return made;
}

TEST(GgufHeader, HasValuesAndTensors) {
  MadeGguf made;
  made.value("u8", std::uint8_t{200}).value("i8", std::int8_t{-3});
  made.value("u16", std::uint16_t{60000}).value("i16", std::int16_t{-300});
  made.value("u32", std::uint32_t{4'000'000'000}).value("i32", std::int32_t{-5});
  made.value("u64", std::uint64_t{1} << 62).value("i64", std::int64_t{-6});
  made.value("f32", 0.5f).value("f64", 0.25).value("yes", true).value("text", "words");
  made.list("texts", std::vector<std::string>{"a", "", "ccc"});
  made.list("numbers", std::vector<std::int16_t>{1, -2});
  made.floats("matrix", {2, 3}, {1, 2, 3, 4, 5, 6});
  made.tensor("blocks", 8, {32, 2}, std::string(68, 'x'));
  for (const std::uint32_t version : {2u, 3u}) {
    made.version = version;
    const GgufHeader header = parse(made.bytes());
    EXPECT_EQ(header.version, version);
    const auto integer = [&](const char* key) {
      return std::get<std::int64_t>(header.values.at(key));
    };
    EXPECT_EQ(integer("u8"), 200);
    EXPECT_EQ(integer("i8"), -3);
    EXPECT_EQ(integer("u16"), 60000);
    EXPECT_EQ(integer("i16"), -300);
    EXPECT_EQ(integer("u32"), 4'000'000'000);
    EXPECT_EQ(integer("i32"), -5);
    EXPECT_EQ(integer("u64"), std::int64_t{1} << 62);
    EXPECT_EQ(integer("i64"), -6);
    EXPECT_EQ(std::get<double>(header.values.at("f32")), 0.5);
    EXPECT_EQ(std::get<double>(header.values.at("f64")), 0.25);
    EXPECT_TRUE(std::get<bool>(header.values.at("yes")));
    EXPECT_EQ(std::get<std::string>(header.values.at("text")), "words");
    io::MemoryFile file("model.gguf", std::make_shared<const std::string>(made.bytes()));
    std::vector<std::string> texts;
    read_texts(file, std::get<GgufList>(header.values.at("texts")),
               [&](const std::string& text) { texts.push_back(text); });
    EXPECT_THAT(texts, ElementsAre("a", "", "ccc"));
    EXPECT_THAT(read_numbers(file, std::get<GgufList>(header.values.at("numbers"))),
                ElementsAre(1, -2));
    ASSERT_EQ(header.tensors.size(), 2u);
    EXPECT_EQ(header.tensors[0].name, "matrix");
    EXPECT_THAT(header.tensors[0].shape, ElementsAre(3, 2));  // rows first
    EXPECT_EQ(header.tensors[0].bytes, 24);
    EXPECT_EQ(header.tensors[1].bytes, 68);
    EXPECT_EQ(header.tensors[1].offset, header.tensors[0].offset + 32);
    EXPECT_EQ(made.bytes()[static_cast<std::size_t>(header.tensors[1].offset)], 'x');
  }
}

TEST(GgufHeader, EveryPrefixIsRefused) {
  const std::string whole = small().bytes();
  parse(whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(refusal(whole.substr(0, length)),
                AllOf(HasSubstr("'model.gguf' is not a valid GGUF file"), HasSubstr("at byte")))
        << length;
  }
}

TEST(GgufHeader, VersionsAndByteOrder) {
  MadeGguf made = small();
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    made.version = version;
    EXPECT_THAT(refusal(made.bytes()), AllOf(HasSubstr("GGUF version " + std::to_string(version)),
                                             HasSubstr("reads versions 2 and 3")));
  }
  made.version = 3u << 24;
  EXPECT_THAT(refusal(made.bytes()), AllOf(HasSubstr("big-endian"), HasSubstr("version 3")));
  EXPECT_THAT(refusal("GGML" + std::string(40, '\0')), HasSubstr("expected GGUF, found 'GGML'"));
}

TEST(GgufHeader, CountsThatNoFileHolds) {
  MadeGguf made = small();
  made.tensor_count = std::uint64_t{1} << 60;
  EXPECT_THAT(refusal(made.bytes()), HasSubstr("at byte 8: the number of tensors"));
  made = small();
  made.key_count = std::uint64_t{1} << 63;
  EXPECT_THAT(refusal(made.bytes()), HasSubstr("at byte 16: the number of keys"));
  // The length of the first key.
  std::string bytes = small().bytes();
  bytes.replace(24, 8, 8, '\xff');
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("at byte 24: a key"), HasSubstr("at most 1024")));
  const auto with_count = [](std::uint64_t count) {
    MadeGguf list;
    list.list("l", std::vector<std::uint64_t>{1, 2});
    std::string text = list.bytes();
    text.replace(24 + 8 + 1 + 4 + 4, 8, reinterpret_cast<const char*>(&count), 8);
    return text;
  };
  parse(with_count(2));
  EXPECT_THAT(refusal(with_count(std::uint64_t{1} << 61)),
              AllOf(HasSubstr("at byte 41"), HasSubstr("the value of 'l'"), HasSubstr("items")));
}

TEST(GgufHeader, NamesAndKeysTwice) {
  EXPECT_THAT(refusal(small().value("a.number", true).bytes()),
              AllOf(HasSubstr("'a.number'"), HasSubstr("each key once")));
  EXPECT_THAT(refusal(small().floats("one", {1}, {1}).bytes()),
              AllOf(HasSubstr("tensor 'one'"), HasSubstr("each name once")));
  EXPECT_THAT(refusal(small().floats("\x1b[31m\xff", {1}, {1}).bytes()),
              HasSubstr("expected a text in UTF-8"));
}

TEST(GgufHeader, TypesOfOthersByName) {
  for (const auto& [number, name] : {std::pair{16u, "IQ2_XXS"},
                                     {23u, "IQ4_XS"},
                                     {34u, "TQ1_0"},
                                     {39u, "MXFP4"},
                                     {28u, "F64"},
                                     {15u, "Q8_K"},
                                     {26u, "I32"},
                                     {99u, "type 99"}}) {
    EXPECT_THAT(refusal(small().tensor("other", number, {256}, std::string(512, 'x')).bytes()),
                AllOf(HasSubstr("tensor 'other' is stored as " + std::string(name)),
                      HasSubstr("Q4_K"), HasSubstr("at byte")));
  }
  MadeGguf made;
  made.list("l", std::vector<std::uint8_t>{1});
  std::string bytes = made.bytes();
  bytes[24 + 8 + 1] = 13;
  EXPECT_THAT(refusal(bytes), HasSubstr("expected a type from 0 to 12, found 13"));
  bytes[24 + 8 + 1] = 9;
  bytes[24 + 8 + 1 + 4] = 9;
  EXPECT_THAT(refusal(bytes), HasSubstr("found a list of lists"));
}

TEST(GgufHeader, ShapesThatMakeNoSense) {
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {}, 64).bytes()), HasSubstr("1 to 4 dimensions"));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {1, 1, 1, 1, 1}, 64).bytes()),
              HasSubstr("1 to 4 dimensions"));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {0}, 64).bytes()), HasSubstr("at least 1"));
  EXPECT_THAT(refusal(small().tensor_at("t", 8, {33}, 64).bytes()),
              AllOf(HasSubstr("multiple of 32"), HasSubstr("Q8_0"), HasSubstr("found 33")));
  const std::uint64_t huge = std::uint64_t{1} << 40;
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {huge, huge}, 64).bytes()), HasSubstr("2^63"));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {huge}, 64).bytes()), HasSubstr("cut off"));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {~std::uint64_t{0}}, 64).bytes()),
              HasSubstr("2^63"));
}

TEST(GgufHeader, PlacesOfTensors) {
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {1}, 4).bytes()),
              AllOf(HasSubstr("multiple of 32"), HasSubstr("found 4")));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {1}, 0).bytes()),
              AllOf(HasSubstr("tensor"), HasSubstr("its data behind that of")));
  EXPECT_THAT(refusal(small().tensor_at("t", 0, {1}, std::uint64_t{1} << 62).bytes()),
              HasSubstr("cut off"));
  for (const std::uint32_t alignment : {0u, 4u, 48u, 1u << 30}) {
    EXPECT_THAT(refusal(small().value("general.alignment", alignment).bytes()),
                HasSubstr("general.alignment: expected a power of two"));
  }
  MadeGguf wide;
  wide.alignment = 256;
  wide.value("general.alignment", std::uint32_t{256});
  wide.floats("a", {1}, {1}).floats("b", {1}, {2});
  const GgufHeader header = parse(wide.bytes());
  EXPECT_EQ(header.tensors[0].offset % 256, 0);
  EXPECT_EQ(header.tensors[1].offset, header.tensors[0].offset + 256);
}

class GgufParts : public testing::Test {
 protected:
  // Part `no` of two, with one tensor.
  void write(int no, const std::string& tensor, const std::string& name, int count = 2) {
    MadeGguf made;
    made.value("split.no", static_cast<std::uint16_t>(no));
    made.value("split.count", static_cast<std::uint16_t>(count));
    made.value("split.tensors.count", std::int32_t{2});
    if (no == 0) made.value("general.architecture", "llama");
    made.floats(tensor, {1}, {static_cast<float>(no)});
    write_text(files, folder / name, made.bytes());
  }
  std::string refusal(const std::string& name) {
    return error_of([&] { GgufFiles(files, folder / name); });
  }

  io::PosixFileSystem files;
  io::TempFolder folder;
  const std::string first = "m-00001-of-00002.gguf";
  const std::string second = "m-00002-of-00002.gguf";
};

TEST_F(GgufParts, AreReadAsOne) {
  write(0, "a", first);
  write(1, "b", second);
  for (const std::string& given : {first, second}) {
    const GgufFiles all(files, folder / given);
    EXPECT_EQ(all.path().filename(), first);
    EXPECT_EQ(all.parts().size(), 2u);
    EXPECT_EQ(all.tensor_count(), 2u);
    EXPECT_EQ(all.find("a").part, &all.parts()[0]);
    EXPECT_EQ(all.find("b").part, &all.parts()[1]);
    EXPECT_EQ(all.find("c").tensor, nullptr);
    EXPECT_EQ(all.try_text("general.architecture"), "llama");
  }
}

TEST_F(GgufParts, ThatDoNotBelongTogether) {
  write(0, "a", first);
  EXPECT_THAT(refusal(first), HasSubstr("'m-00002-of-00002.gguf' is missing"));
  write(1, "a", second);
  EXPECT_THAT(refusal(first), HasSubstr("tensor 'a' is also in"));
  write(0, "b", second);
  EXPECT_THAT(refusal(first), HasSubstr("its split.no is 0"));
  write(1, "b", second, 3);
  EXPECT_THAT(refusal(first), HasSubstr("split.count is 3"));
  write(0, "a", "other.gguf");
  EXPECT_THAT(refusal("other.gguf"), HasSubstr("should end with -00001-of-00002.gguf"));
  write(0, "a", first, 0);
  EXPECT_THAT(refusal(first), HasSubstr("split.count is 0"));
}

}  // namespace
}  // namespace ebb::files
