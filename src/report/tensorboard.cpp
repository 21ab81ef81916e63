#include "report/tensorboard.h"

#include <array>
#include <bit>
#include <concepts>

#include <fmt/format.h>

namespace ebb::report {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// So that a checksum of bytes that hold checksums is one all the same.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }

template <std::unsigned_integral Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
  }
  return bytes;
}

// A message of protocol buffers: fields by number, in the order in which they are added.
class Message {
 public:
  Message& add(int field, double value) {
    return raw(field, 1, little_endian(std::bit_cast<std::uint64_t>(value)));
  }
  Message& add(int field, float value) {
    return raw(field, 5, little_endian(std::bit_cast<std::uint32_t>(value)));
  }
  Message& add(int field, std::int64_t value) {
    return raw(field, 0, varint(static_cast<std::uint64_t>(value)));
  }
  Message& add(int field, std::string_view text) {
    return raw(field, 2, varint(text.size()) + std::string(text));
  }
  Message& add(int field, const Message& message) { return add(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  Message& raw(int field, unsigned wire_type, const std::string& value) {
    bytes_ += varint(static_cast<unsigned>(field) << 3 | wire_type) + value;
    return *this;
  }
  static std::string varint(std::uint64_t number) {
    std::string bytes;
    for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(0x80 | (number & 0x7f));
    return bytes + static_cast<char>(number);
  }

  std::string bytes_;
};

// Of event.proto and summary.proto.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;
}
namespace session_log {
constexpr int kStatus = 1;
constexpr std::int64_t kStart = 1;
}  // namespace session_log

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  const std::string length = little_endian(std::uint64_t{bytes.size()});
  return length + little_endian(masked(crc32c(length))) + std::string(bytes) +
         little_endian(masked(crc32c(bytes)));
}

std::string events_header(double wall_seconds) {
  Message all;
  all.add(event::kWallTime, wall_seconds);
  all.add(event::kFileVersion, std::string_view("brain.Event:2"));
  return tf_record(all.bytes());
}

std::string restart_event(double wall_seconds, std::int64_t step) {
  Message start;
  start.add(session_log::kStatus, session_log::kStart);
  Message all;
  all.add(event::kWallTime, wall_seconds).add(event::kStep, step).add(event::kSessionLog, start);
  return tf_record(all.bytes());
}

std::string scalars_event(double wall_seconds, const LogLine& line) {
  Message scalars;
  const auto add = [&](const std::string& tag, double value) {
    Message scalar;
    scalar.add(summary::kTag, std::string_view(tag));
    scalar.add(summary::kSimpleValue, static_cast<float>(value));
    scalars.add(summary::kValue, scalar);
  };
  for (const LogField& field : kLogFields) {
    const auto& value = line.*field.value;
    if (!value) continue;
    add(field.value == &LogLine::validation_loss ? "validation/loss"
                                                 : fmt::format("train/{}", field.key),
        *value);
  }
  for (const auto& [tier, bytes] : line.memory) {
    add("memory/" + tier, static_cast<double>(bytes));
  }
  Message all;
  all.add(event::kWallTime, wall_seconds)
      .add(event::kStep, line.step)
      .add(event::kSummary, scalars);
  return tf_record(all.bytes());
}

std::string events_file_name(double wall_seconds, std::string_view host, std::int64_t process) {
  return fmt::format("events.out.tfevents.{:017.6f}.{}.{}.ebb", wall_seconds, host, process);
}

}  // namespace ebb::report
