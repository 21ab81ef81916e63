#include "files/safetensors.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"

namespace ebb::files {
namespace {

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

// A file's text from its header and data, with the true length in front.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string text(8, '\0');
  std::uint64_t length = header.size();
  for (char& c : text) {
    c = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return text + header + data;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path put(const std::string& text) {
    // Cutting a file to nothing and closing it makes some disks flush; a new one does not.
    files.remove_all(folder / "x.safetensors");
    const auto file = files.create(folder / "x.safetensors");
    file->write(0, std::as_bytes(std::span(text)));
    return file->path();
  }

  // Reads everything a header promises, as a loader would.
  void read_all(const std::filesystem::path& path) {
    const SafetensorsReader reader(files, path);
    for (const StoredTensor& tensor : reader.tensors()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
      reader.read(tensor, 0, bytes);
    }
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
};

const std::vector<TensorSpec> kSpecs = {
    {"embedding", StoredType::bf16, {5, 3}}, {"none", StoredType::f32, {0, 7}},
    {"scalar", StoredType::i64, {}},         {"a name with \"quotes\" and ä", StoredType::u8, {13}},
    {"head", StoredType::f32, {2, 2, 2}},
};
constexpr std::size_t kDataBytes = 30 + 0 + 8 + 13 + 32;

std::string some_data() {
  std::string data(kDataBytes, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + 1);
  return data;
}

TEST_F(SafetensorsTest, RoundTrip) {
  const std::string data = some_data();
  SafetensorsWriter writer(files, folder / "m", kSpecs, {{"format", "pt"}, {"step", "20"}});
  writer.write(std::as_bytes(std::span(data)));
  const WrittenFile written = writer.finish();

  const std::string text = io::read_text(files, folder / "m", 10000);
  EXPECT_EQ(written.bytes, static_cast<Bytes>(text.size()));
  EXPECT_EQ(writer.total_bytes(), written.bytes);
  Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  EXPECT_EQ(written.digest, digest.hex());

  const SafetensorsReader reader(files, folder / "m");
  EXPECT_THAT(reader.metadata(),
              ElementsAre(testing::Pair("format", "pt"), testing::Pair("step", "20")));
  ASSERT_EQ(reader.tensors().size(), kSpecs.size());
  EXPECT_EQ(reader.tensors()[0].offset % 8, 0);
  std::string read_back;
  for (const TensorSpec& spec : kSpecs) {
    const StoredTensor* tensor = reader.find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_EQ(tensor->type, spec.type) << spec.name;
    EXPECT_EQ(tensor->shape, spec.shape) << spec.name;
    EXPECT_EQ(tensor->bytes, *try_bytes_of(spec.type, spec.shape)) << spec.name;
    std::string bytes(static_cast<std::size_t>(tensor->bytes), '\0');
    reader.read(*tensor, 0, std::as_writable_bytes(std::span(bytes)));
    read_back += bytes;
  }
  EXPECT_EQ(read_back, data);
  EXPECT_EQ(reader.find("nobody"), nullptr);
}

TEST_F(SafetensorsTest, PieceSizesDoNotChangeTheFile) {
  const std::string data = some_data();
  const auto save = [&](std::size_t piece) {
    SafetensorsWriter writer(files, folder / "m", kSpecs);
    for (std::size_t at = 0; at < data.size(); at += piece) {
      const std::string part = data.substr(at, piece);
      writer.write(std::as_bytes(std::span(part)));
    }
    const WrittenFile written = writer.finish();
    return written.digest + io::read_text(files, folder / "m", 10000);
  };
  const std::string whole = save(kDataBytes);
  for (std::size_t piece = 1; piece < kDataBytes; ++piece) {
    EXPECT_EQ(save(piece), whole) << "pieces of " << piece;
  }
}

TEST_F(SafetensorsTest, PartsOfATensor) {
  const std::string data = some_data();
  SafetensorsWriter writer(files, folder / "m", kSpecs);
  writer.write(std::as_bytes(std::span(data)));
  writer.finish();
  const SafetensorsReader reader(files, folder / "m");
  const StoredTensor& head = *reader.find("head");
  std::string part(5, '\0');
  reader.read(head, 27, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, data.substr(kDataBytes - 5));
  EXPECT_THAT(error_of([&] { reader.read(head, 28, std::as_writable_bytes(std::span(part))); }),
              HasSubstr("tensor 'head': expected a read within its 32 bytes, found 5 bytes at 28"));
  EXPECT_THROW(reader.read(head, -1, std::as_writable_bytes(std::span(part))), FormatError);
}

TEST_F(SafetensorsTest, TheWriterCountsBytes) {
  SafetensorsWriter writer(files, folder / "m", {{"a", StoredType::u8, {4}}});
  const std::string data = "12345";
  EXPECT_THAT(error_of([&] { writer.write(std::as_bytes(std::span(data))); }),
              HasSubstr("at most 4 more bytes, found 5"));
  writer.write(std::as_bytes(std::span(data)).first(3));
  EXPECT_THAT(error_of([&] { writer.finish(); }),
              HasSubstr("tensor 'a': expected 4 bytes, found 3"));
  EXPECT_THROW(SafetensorsReader(files, folder / "m"), FormatError);
  writer.write(std::as_bytes(std::span(data)).first(1));
  writer.finish();
  EXPECT_THROW(writer.write(std::as_bytes(std::span(data)).first(1)), FormatError);
}

TEST_F(SafetensorsTest, TheWriterRefusesImpossibleSpecs) {
  const auto writing = [&](std::vector<TensorSpec> specs, Metadata metadata = {}) {
    return error_of([&] { SafetensorsWriter(files, folder / "m", specs, metadata); });
  };
  EXPECT_THAT(writing({{"a", StoredType::u8, {1}}, {"a", StoredType::u8, {1}}}),
              HasSubstr("tensor 'a': expected each name once"));
  EXPECT_THAT(writing({{"__metadata__", StoredType::u8, {1}}}), HasSubstr("each name once"));
  EXPECT_THAT(writing({{"a", StoredType::u8, {-1}}}), HasSubstr("found the shape [-1]"));
  EXPECT_THAT(writing({{"a", StoredType::f64, {std::int64_t{1} << 60}}}), HasSubstr("2^63"));
  EXPECT_THAT(writing({{"a", StoredType::u8, {INT64_MAX}}, {"b", StoredType::u8, {1}}}),
              HasSubstr("tensor 'b'"));
  EXPECT_THAT(writing({{"\xff", StoredType::u8, {1}}}), HasSubstr("UTF-8"));
  EXPECT_THAT(writing({}, {{"k", "\xc3"}}), HasSubstr("UTF-8"));
  EXPECT_FALSE(files.exists(folder / "m"));
}

TEST_F(SafetensorsTest, ReadsWhatOthersWrite) {
  const auto reads = [&](const std::string& header, const std::string& data) {
    read_all(put(file_of(header, data)));
  };
  reads("{}", "");
  reads("{}      ", "");
  reads(R"({"__metadata__":{}})", "");
  // The order of names is not the order of data, and empty tensors lie anywhere.
  reads(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},
            "z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},
            "a":{"data_offsets":[0,1],"shape":[],"dtype":"BOOL"}})",
        "abc");
  const SafetensorsReader reader(files, folder / "x.safetensors");
  EXPECT_EQ(reader.tensors()[0].name, "a");
  EXPECT_EQ(reader.tensors()[1].name, "z");
  EXPECT_EQ(reader.tensors()[2].name, "b");
}

struct Malformed {
  const char* what;
  std::string file;
  const char* error;
};

const std::string kDeep(200000, '[');
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}}";
}

const Malformed kMalformed[] = {
    {"empty", "", "at least 8 bytes, found 0"},
    {"short length", "1234567", "at least 8 bytes, found 7"},
    {"length beyond the file", file_of("{}").replace(0, 1, "\x03"), "at most 2 bytes"},
    {"huge length", std::string(8, '\xff') + "{}", "found 18446744073709551615 bytes"},
    {"length of 1 TB", std::string("\0\0\0\0\0\1\0\0{}", 10), "found 1099511627776 bytes"},
    {"empty header", file_of(""), "begins with {"},
    {"space first", file_of(" {}"), "begins with {"},
    {"not an object", file_of("[]"), "begins with {"},
    {"unclosed", file_of("{"), "expected JSON"},
    {"two objects", file_of("{}{}"), "expected JSON"},
    {"zero bytes after it", file_of(std::string("{}\0", 3)), "expected JSON"},
    {"bad UTF-8", file_of("{\"\xff\":{}}"), "expected JSON in UTF-8"},
    {"lone surrogate", file_of(R"({"\ud800":{}})"), "expected JSON"},
    {"deep lists", file_of("{\"t\":" + kDeep), "'t': expected an object, found a list"},
    {"deep shape", file_of(tensor("\"U8\"", kDeep, "[0,0]")), "tensor 't': shape"},
    {"deep metadata", file_of("{\"__metadata__\":{\"k\":" + kDeep), "expected a text"},
    {"object in an entry", file_of(R"({"t":{"dtype":{}}})"), "dtype: expected a text"},
    {"tensor is a number", file_of(R"({"t":1})"), "'t': expected an object, found the number 1"},
    {"tensor is null", file_of(R"({"t":null})"), "expected an object, found null"},
    {"metadata is a text", file_of(R"({"__metadata__":"x"})"), "expected an object"},
    {"metadata holds a number", file_of(R"({"__metadata__":{"k":1}})"), "key 'k': expected a text"},
    {"metadata key twice", file_of(R"({"__metadata__":{"k":"","k":""}})"), "found 'k' twice"},
    {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' twice"},
    {"name twice", file_of(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},
                 "t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
     "found 't' twice"},
    {"key twice", file_of(R"({"t":{"dtype":"U8","dtype":"U8"}})"), "found 'dtype' twice"},
    {"unknown key", file_of(R"({"t":{"strides":[1]}})"), "found 'strides'"},
    {"nothing in an entry", file_of(R"({"t":{}})"), "found none"},
    {"no dtype", file_of(R"({"t":{"shape":[0],"data_offsets":[0,0]}})"), "found only"},
    {"unknown dtype", file_of(tensor("\"F3\"", "[0]", "[0,0]")), "found 'F3'"},
    {"lower case dtype", file_of(tensor("\"bf16\"", "[0]", "[0,0]")), "found 'bf16'"},
    {"dtype is a list", file_of(tensor("[]", "[0]", "[0,0]")), "dtype: expected a text"},
    {"shape is a text", file_of(tensor("\"U8\"", "\"4\"", "[0,4]"), "1234"), "list of numbers"},
    {"negative dimension", file_of(tensor("\"U8\"", "[-4]", "[0,4]"), "1234"), "the number -4"},
    {"broken dimension", file_of(tensor("\"U8\"", "[1.5]", "[0,4]"), "1234"), "the number '1.5'"},
    {"dimension beyond 2^63", file_of(tensor("\"U8\"", "[9223372036854775808]", "[0,4]"), "1234"),
     "below 2^63"},
    {"dimension beyond 2^64", file_of(tensor("\"U8\"", "[99999999999999999999]", "[0,4]"), "1234"),
     "the number '99999999999999999999'"},
    {"product overflows", file_of(tensor("\"U8\"", "[4294967296,4294967296]", "[0,0]")),
     "less than 2^63 bytes, found [4294967296, 4294967296]"},
    {"bytes overflow", file_of(tensor("\"F64\"", "[2305843009213693952]", "[0,0]")), "2^63"},
    {"product overflows to the right size",
     file_of(tensor("\"F32\"", "[4611686018427387905]", "[0,4]"), "1234"), "2^63"},
    {"too many dimensions",
     file_of(tensor(
                 "\"U8\"",
                 [] {
                   std::string ones = "[1";
                   for (int i = 0; i < 70; ++i) ones += ",1";
                   return ones + "]";
                 }(),
                 "[0,1]"),
             "1"),
     "at most 64 numbers"},
    {"one offset", file_of(tensor("\"U8\"", "[4]", "[4]"), "1234"), "two numbers, found 1"},
    {"three offsets", file_of(tensor("\"U8\"", "[4]", "[0,4,4]"), "1234"), "exactly 2 numbers"},
    {"offsets reversed", file_of(tensor("\"U8\"", "[4]", "[4,0]"), "1234"), "found [4, 0]"},
    {"offsets too wide", file_of(tensor("\"U8\"", "[4]", "[0,5]"), "12345"),
     "expected 4 bytes for U8 [4], found 5"},
    {"offsets beyond the file", file_of(tensor("\"U8\"", "[5]", "[0,5]"), "1234"),
     "tensor 't': expected its data to end inside the file's data, before 4, found 5"},
    {"huge tensor in a small file",
     file_of(tensor("\"U8\"", "[9223372036854775807]", "[0,9223372036854775807]"), "1234"),
     "found 9223372036854775807"},
    {"hole before", file_of(tensor("\"U8\"", "[2]", "[2,4]"), "1234"), "at 0, found 2"},
    {"bytes after", file_of(tensor("\"U8\"", "[2]", "[0,2]"), "1234"), "found 4"},
    {"data without tensors", file_of("{}", "1234"), "expected 0 bytes of data"},
    {"overlap",
     file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},
                 "b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
             "1234"),
     "tensor 'b': expected its data to begin where the tensor before it ends, at 3, found 1"},
    {"the same bytes twice",
     file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                 "b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
             "1234"),
     "at 4, found 0"},
    {"control characters in a name", file_of("{\"a\\u001b[31m\":1}"), "'a?[31m'"},
};

TEST_F(SafetensorsTest, RefusesMalformedFiles) {
  for (const Malformed& malformed : kMalformed) {
    const std::filesystem::path path = put(malformed.file);
    const std::string error = error_of([&] { read_all(path); });
    EXPECT_THAT(error, HasSubstr(malformed.error)) << malformed.what;
    EXPECT_THAT(error, HasSubstr(path.string())) << malformed.what;
    EXPECT_LT(error.size(), 1000u) << malformed.what;
  }
}

TEST_F(SafetensorsTest, LongNamesDoNotFloodErrors) {
  const std::string name(1 << 20, 'n');
  const std::string error = error_of([&] { read_all(put(file_of("{\"" + name + "\":1}"))); });
  EXPECT_THAT(error, HasSubstr("expected an object"));
  EXPECT_LT(error.size(), 1000u);
}

class DamagedSafetensors : public SafetensorsTest {
 protected:
  void SetUp() override {
    const std::string data = some_data();
    SafetensorsWriter writer(files, folder / "m", kSpecs, {{"k", "v"}});
    writer.write(std::as_bytes(std::span(data)));
    writer.finish();
    whole = io::read_text(files, folder / "m", 10000);
  }

  std::string whole;
};

TEST_F(DamagedSafetensors, CutAnywhereIsAnError) {
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THROW(read_all(put(whole.substr(0, bytes))), FormatError) << "cut to " << bytes;
  }
  EXPECT_THROW(read_all(put(whole + "x")), FormatError);
}

TEST_F(DamagedSafetensors, FlippedBitsAreAnErrorOrAValidFile) {
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    try {
      read_all(put(text));
    } catch (const FormatError&) {
    }
  }
}

TEST_F(DamagedSafetensors, ManyFlippedBytesAreAnErrorOrAValidFile) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 1 + round % 8; ++i)
      text[random() % text.size()] = "{}[]\",:0123456789\\u\xff"[random() % 21];
    try {
      read_all(put(text));
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace ebb::files
