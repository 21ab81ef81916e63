#include "ebb/units.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "ebb/error.h"

namespace ebb {
namespace {

std::string message_of(std::string_view text, std::string_view what) {
  try {
    const Bytes bytes = parse_bytes(text, what);
    ADD_FAILURE() << "'" << text << "' was read as " << bytes << " bytes";
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(ParseBytes, ReadsBinaryUnits) {
  EXPECT_EQ(parse_bytes("1KiB", "x"), 1024);
  EXPECT_EQ(parse_bytes("512MiB", "x"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("10GiB", "x"), 10 * kGiB);
  EXPECT_EQ(parse_bytes("2TiB", "x"), 2048 * kGiB);
  EXPECT_EQ(parse_bytes("0.5KiB", "x"), 512);
}

TEST(ParseBytes, ReadsDecimalUnits) {
  EXPECT_EQ(parse_bytes("3kB", "x"), 3'000);
  EXPECT_EQ(parse_bytes("3KB", "x"), 3'000);
  EXPECT_EQ(parse_bytes("7MB", "x"), 7'000'000);
  EXPECT_EQ(parse_bytes("1.5GB", "x"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("1TB", "x"), 1'000'000'000'000);
}

TEST(ParseBytes, ReadsABareNumberAsBytes) {
  EXPECT_EQ(parse_bytes("0", "x"), 0);
  EXPECT_EQ(parse_bytes("4096", "x"), 4096);
  EXPECT_EQ(parse_bytes("4096B", "x"), 4096);
}

TEST(ParseBytes, AllowsASpaceBeforeTheUnit) { EXPECT_EQ(parse_bytes("10 GiB", "x"), 10 * kGiB); }

TEST(ParseBytes, ReadsOnlyTheGivenView) {
  const std::string_view text = "10GiBGARBAGE";
  EXPECT_EQ(parse_bytes(text.substr(0, 5), "x"), 10 * kGiB);
  EXPECT_EQ(parse_bytes(text.substr(0, 2), "x"), 10);
}

TEST(ParseBytes, AnErrorNamesTheOptionTheTextAndWhatToWrite) {
  const std::string message = message_of("10 Gigs", "--device-memory");
  EXPECT_NE(message.find("--device-memory"), std::string::npos) << message;
  EXPECT_NE(message.find("'10 Gigs'"), std::string::npos) << message;
  EXPECT_NE(message.find("10GiB"), std::string::npos) << message;
}

TEST(ParseSeconds, ReadsNumbersWithUnits) {
  EXPECT_EQ(parse_seconds("30s", "x"), 30);
  EXPECT_EQ(parse_seconds("10min", "x"), 600);
  EXPECT_EQ(parse_seconds("10 m", "x"), 600);
  EXPECT_EQ(parse_seconds("1.5h", "x"), 5400);
  EXPECT_EQ(parse_seconds("2d", "x"), 172800);
  EXPECT_EQ(parse_seconds("0s", "x"), 0);
}

TEST(ParseSeconds, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "10", "min", "-1s", "nans", "infh", "1e300d", "10minutes", "10GiB"}) {
    EXPECT_THROW(parse_seconds(text, "--save-every"), ConfigError) << text;
  }
}

TEST(ParseBytes, RefusesWhatIsNotAQuantity) {
  for (const char* text : {"", " ", "GiB", "ten", "-1GiB", "-1", "nan", "inf", "nanGiB", "infGiB",
                           "10gigs", "10GiB!", "10GiB10", "1,5GiB", "0x10", "--"}) {
    EXPECT_NE(message_of(text, "--x").find("--x"), std::string::npos) << "'" << text << "'";
  }
}

TEST(ParseBytes, RefusesWhatDoesNotFit64Bits) {
  for (const char* text : {"1e400", "1e300GiB", "9223372036854775808", "8388608TiB"}) {
    message_of(text, "--x");
  }
  EXPECT_EQ(parse_bytes("8388607TiB", "x"), Bytes{8388607} << 40);
}

TEST(FormatBytes, HasThreeDigitsAndABinaryUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1), "1 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(10 * kGiB), "10.0 GiB");
  EXPECT_EQ(format_bytes(100 * kGiB), "100 GiB");
  EXPECT_EQ(format_bytes(2048 * kGiB), "2.00 TiB");
}

TEST(FormatBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1.00 GiB");
}

TEST(FormatBytes, TakesTheLargestCounts) {
  EXPECT_EQ(format_bytes(std::numeric_limits<Bytes>::max()), "8388608 TiB");
}

TEST(FormatBytes, IsReadBackNearly) {
  for (Bytes bytes = 1; bytes < (Bytes{1} << 50); bytes = bytes * 3 + 1) {
    const Bytes read = parse_bytes(format_bytes(bytes), "x");
    EXPECT_NEAR(static_cast<double>(read), static_cast<double>(bytes), 0.006 * bytes)
        << format_bytes(bytes);
  }
}

TEST(FormatCount, UsesDecimalThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'000), "1.00 k");
  EXPECT_EQ(format_count(10'200'000), "10.2 M");
  EXPECT_EQ(format_count(1'540'000'000), "1.54 B");
}

TEST(FormatSeconds, ChoosesAUnitPeopleRead) {
  EXPECT_EQ(format_seconds(0), "0 us");
  EXPECT_EQ(format_seconds(850e-6), "850 us");
  EXPECT_EQ(format_seconds(0.0125), "12.5 ms");
  EXPECT_EQ(format_seconds(3.2), "3.2 s");
  EXPECT_EQ(format_seconds(245), "4m 05s");
  EXPECT_EQ(format_seconds(3599.6), "1h 00m");
  EXPECT_EQ(format_seconds(7800), "2h 10m");
}

}  // namespace
}  // namespace ebb
