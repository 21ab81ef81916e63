// Event files, byte by byte: the readers themselves are asked by tools/check_log_readers.sh.
#include "report/tensorboard.h"

#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace ebb::report {
namespace {

TEST(Tensorboard, ChecksumsAreThoseOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

std::uint64_t number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

// The bytes of a file's records, whose checksums are compared.
std::vector<std::string_view> records(std::string_view file) {
  std::vector<std::string_view> all;
  while (!file.empty()) {
    if (file.size() < 16) {
      ADD_FAILURE() << "a record is cut";
      break;
    }
    const std::uint64_t length = number(file.substr(0, 8));
    EXPECT_EQ(number(file.substr(8, 4)), mask(crc32c(file.substr(0, 8))));
    const std::string_view bytes = file.substr(12, length);
    EXPECT_EQ(number(file.substr(12 + length, 4)), mask(crc32c(bytes)));
    all.push_back(bytes);
    file.remove_prefix(length + 16);
  }
  return all;
}

// A message's fields, numbers as their bits, in the order of the bytes.
std::vector<std::pair<int, std::string>> fields(std::string_view bytes) {
  std::vector<std::pair<int, std::string>> all;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  };
  while (!bytes.empty()) {
    const std::uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      all.emplace_back(field, std::to_string(varint()));
      continue;
    }
    const std::size_t length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
    all.emplace_back(field, std::string(bytes.substr(0, length)));
    bytes.remove_prefix(length);
  }
  return all;
}

TEST(Tensorboard, AFileBeginsWithItsVersionAndWhereItGoesOn) {
  const std::string file = events_header(2.5) + restart_event(2.5, 11);
  const auto both = records(file);
  ASSERT_EQ(both.size(), 2u);
  const auto first = fields(both[0]);
  EXPECT_EQ(std::bit_cast<double>(number(first.at(0).second)), 2.5);
  EXPECT_EQ(first.at(1), (std::pair<int, std::string>{3, "brain.Event:2"}));
  const auto second = fields(both[1]);
  EXPECT_EQ(second.at(1), (std::pair<int, std::string>{2, "11"}));
  EXPECT_EQ(fields(second.at(2).second).at(0), (std::pair<int, std::string>{1, "1"}));
}

TEST(Tensorboard, ALineBecomesItsScalars) {
  LogLine line;
  line.step = 300;
  line.loss = 2.5;
  line.validation_loss = 0.125;
  line.memory = {{"device", 4096}};
  const std::string file = scalars_event(1.0, line);
  const auto event = fields(records(file).at(0));
  EXPECT_EQ(event.at(1), (std::pair<int, std::string>{2, "300"}));
  std::map<std::string, float> scalars;
  for (const auto& [field, bytes] : fields(event.at(2).second)) {
    EXPECT_EQ(field, 1);
    const auto value = fields(bytes);
    scalars[value.at(0).second] =
        std::bit_cast<float>(static_cast<std::uint32_t>(number(value.at(1).second)));
  }
  EXPECT_EQ(scalars,
            (std::map<std::string, float>{
                {"train/loss", 2.5F}, {"validation/loss", 0.125F}, {"memory/device", 4096.F}}));
}

// As the writer of tensorboard 2.21 makes it (RecordWriter, an Event of one scalar at step 1).
TEST(Tensorboard, ARecordHasTheBytesOfTensorboardsOwnWriter) {
  LogLine line;
  line.step = 1;
  line.loss = 0.5;
  const std::string file = scalars_event(1.0, line);
  std::string hex;
  for (const char c : file) {
    constexpr std::string_view digits = "0123456789abcdef";
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(
      hex,
      "200000000000000029eda95009000000000000f03f10012a130a110a0a747261696e2f6c6f7373150000003fd0"
      "b91295");
}

TEST(Tensorboard, FilesAreReadInTheOrderOfTheirTimes) {
  const std::string name = events_file_name(1700000000.25, "host", 99);
  EXPECT_EQ(name, "events.out.tfevents.1700000000.250000.host.99.ebb");
  EXPECT_LT(name, events_file_name(1700000000.5, "host", 1));
}

}  // namespace
}  // namespace ebb::report
