#include "dist/watchdog.h"

#include "dist/communicator_contract.h"
#include "dist/rank_threads.h"

namespace ebb::dist {
namespace {

// Long enough that those who are only slow give their signs.
constexpr Communicator::Seconds kSoon{2};

TEST(Watchdog, LetsARunEndInPeace) {
  run_ranks(3, [](Communicator& ranks) {
    const Watchdog watchdog(ranks.split(), kSoon * 1000);
    for (const Promise& promise : promises()) promise.run(ranks);
  });
}

// Rank 2 gives no sign; the others wait for each other, for which there is no timeout.
TEST(Watchdog, EndsTheWaitingOfAllWhereOneIsSilent) {
  run_ranks(3, [](Communicator& ranks) {
    std::unique_ptr<Communicator> signs = ranks.split();
    const auto done = ranks.split();
    if (ranks.rank() < 2) {
      const Watchdog watchdog(std::move(signs), kSoon);
      int word = 0;
      expect_failure_of(2, ranks, "it has not answered",
                        [&] { ranks.receive(1 - ranks.rank(), &word, sizeof word); });
    } else {
      int word = 0;
      expect_failure_of(2, *done, "it has not answered",
                        [&] { done->receive(0, &word, sizeof word); });
    }
  });
}

}  // namespace
}  // namespace ebb::dist
