#include "dist/threads/thread_communicator.h"

#include "dist/communicator_contract.h"
#include "dist/rank_threads.h"
#include "dist/self/self_communicator.h"

namespace ebb::dist {
namespace {

TEST(SelfCommunicator, KeepsThePromises) {
  for (const Promise& promise : promises()) {
    SCOPED_TRACE(promise.name);
    SelfCommunicator alone;
    promise.run(alone);
  }
}

class ThreadRanks : public testing::TestWithParam<int> {};

TEST_P(ThreadRanks, KeepThePromises) {
  for (const Promise& promise : promises()) {
    run_ranks(GetParam(), promise.run);
  }
}

TEST_P(ThreadRanks, KeepThemOnOneGroup) {
  run_ranks(GetParam(), [](Communicator& ranks) {
    for (const Promise& promise : promises()) promise.run(ranks);
  });
}

TEST_P(ThreadRanks, TellFailures) {
  if (GetParam() == 1) return;
  run_ranks(GetParam(), tells_a_failure);
  run_ranks(GetParam(), notices_another_length);
}

// Whoever leaves, for whatever reason, keeps nobody waiting.
TEST_P(ThreadRanks, TellWhoHasLeft) {
  if (GetParam() == 1) return;
  const int last = GetParam() - 1;
  List<std::unique_ptr<Communicator>> ranks = make_thread_ranks(GetParam());
  ranks[last].reset();
  int word = 0;
  expect_failure_of(last, *ranks[0], "it has left",
                    [&] { ranks[0]->receive(last, &word, sizeof word); });
  expect_failure_of(last, *ranks[0], "it has left",
                    [&] { ranks[0]->send(last, &word, sizeof word); });
}

// Nobody answers: the exchange ends by itself.
TEST_P(ThreadRanks, TellWhoDoesNotAnswer) {
  if (GetParam() == 1) return;
  const int last = GetParam() - 1;
  const auto ranks = make_thread_ranks(GetParam());
  ranks[0]->set_timeout(std::chrono::milliseconds(20));
  int word = 0;
  expect_failure_of(last, *ranks[0], "it has not answered",
                    [&] { ranks[0]->receive(last, &word, sizeof word); });
  expect_failure_of(last, *ranks[0], "it has not answered",
                    [&] { ranks[0]->send(last, &word, sizeof word); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks, testing::Values(1, 2, 3, 4, 7),
                         [](const auto& info) { return fmt::format("ranks{}", info.param); });

}  // namespace
}  // namespace ebb::dist
