#include "memory/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "ebb/error.h"

namespace ebb::memory {
namespace {

TEST(Ledger, CountsForAsLongAsReservationsLive) {
  Ledger ledger("device", 100);
  EXPECT_EQ(ledger.limit(), 100);
  {
    const Reservation a = ledger.reserve("weights", 60);
    EXPECT_EQ(ledger.held(), 60);
    const Reservation b = ledger.reserve("states", 40);
    EXPECT_EQ(ledger.held(), 100);
  }
  EXPECT_EQ(ledger.held(), 0);
  EXPECT_EQ(ledger.peak(), 100);
}

TEST(Ledger, GivesTheLastByteAndNotOneMore) {
  Ledger ledger("device", 100);
  const Reservation a = ledger.reserve("a", 99);
  EXPECT_THROW((void)ledger.reserve("b", 2), OutOfBudget);
  EXPECT_EQ(ledger.held(), 99) << "a refusal counts nothing";
  EXPECT_EQ(ledger.peak(), 99);
  const Reservation b = ledger.reserve("b", 1);
  EXPECT_NO_THROW((void)ledger.reserve("c", 0));
  EXPECT_THROW((void)ledger.reserve("c", 1), OutOfBudget);
}

TEST(Ledger, RefusesNonsense) {
  Ledger ledger("device", 100);
  const Reservation a = ledger.reserve("a", 50);
  EXPECT_THROW((void)ledger.reserve("b", -1), OutOfBudget);
  EXPECT_THROW((void)ledger.reserve("b", std::numeric_limits<Bytes>::max()), OutOfBudget);
  EXPECT_EQ(ledger.held(), 50);
}

TEST(Ledger, FollowsReservationsThatMove) {
  Ledger ledger("host", 100);
  Reservation a = ledger.reserve("a", 30);
  Reservation b = std::move(a);
  EXPECT_EQ(ledger.held(), 30);
  Reservation c = ledger.reserve("c", 50);
  c = std::move(b);  // gives back what c held
  EXPECT_EQ(ledger.held(), 30);
  Reservation& same = c;
  c = std::move(same);
  EXPECT_EQ(ledger.held(), 30);
  c = Reservation();
  EXPECT_EQ(ledger.held(), 0);
  EXPECT_EQ(ledger.peak(), 80);
}

TEST(Ledger, SaysWhoHoldsWhat) {
  Ledger ledger("device", 10 * kMiB);
  const Reservation a = ledger.reserve("weights", 6 * kMiB);
  const Reservation b = ledger.reserve("states", 3 * kMiB);
  { const Reservation gone = ledger.reserve("gone", kMiB); }
  try {
    (void)ledger.reserve("scratch", 2 * kMiB);
    FAIL() << "two do not fit into one";
  } catch (const OutOfBudget& refusal) {
    const std::string text = refusal.what();
    for (const char* part :
         {"device memory", "scratch needs 2.00 MiB", "1.00 MiB available of 10.0 MiB",
          "weights: 6.00 MiB", "states: 3.00 MiB"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
    EXPECT_EQ(text.find("gone"), std::string::npos) << text;
  }
}

TEST(Ledger, HoldsItsLimitAgainstManyThreads) {
  Ledger ledger("host", 1000);
  std::atomic<int> refused = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        try {
          const Reservation mine = ledger.reserve("thread", 200 + 50 * t);
          const Reservation more = ledger.reserve("more", 150);
          if (ledger.held() > ledger.limit()) over = true;
        } catch (const OutOfBudget&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_EQ(ledger.held(), 0);
  EXPECT_LE(ledger.peak(), 1000);
  EXPECT_GE(ledger.peak(), 350);
}

}  // namespace
}  // namespace ebb::memory
