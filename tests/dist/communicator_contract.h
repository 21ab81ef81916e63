// What every communicator promises, as functions that each rank of a group runs. A group is made of
// threads or of processes by whoever calls them; so no rank knows what the others found.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/to_size.h"
#include "dist/communicator.h"
#include "ebb/error.h"

namespace ebb::dist {

// Bytes that depend on who sends them, to whom and on a number.
inline std::vector<std::uint8_t> made_bytes(int from, int to, std::int64_t number, Bytes count) {
  const CounterRng rng(static_cast<std::uint64_t>(number),
                       static_cast<std::uint64_t>(from * 1000 + to));
  std::vector<std::uint8_t> bytes(to_size(count));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(rng.below(i / 8, 1u << 31) >> (i % 8));
  }
  return bytes;
}

inline void expect_bytes(const std::vector<std::uint8_t>& found,
                         const std::vector<std::uint8_t>& expected, const std::string& where) {
  const auto [a, b] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  EXPECT_TRUE(a == found.end() && b == expected.end())
      << where << ": byte " << (a - found.begin()) << " of " << expected.size();
}

inline void knows_its_group(Communicator& ranks) {
  ASSERT_GE(ranks.rank(), 0);
  ASSERT_LT(ranks.rank(), ranks.size());
  std::vector<int> all(to_size(ranks.size()));
  const int mine = ranks.rank();
  ranks.gather_to_all(&mine, all.data(), sizeof mine);
  for (int r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(all[to_size(r)], r);
    EXPECT_FALSE(ranks.host(r).empty());
    EXPECT_EQ(ranks.name_of(r), fmt::format("rank {} on host {}", r, ranks.host(r)));
  }
}

// Every pair at once, of many sizes, nothing and more than any buffer of a transport's among them.
inline void exchanges_among_all(Communicator& ranks) {
  const int me = ranks.rank();
  std::int64_t number = 0;
  for (const Bytes size : {0, 1, 7, 4096, 65'537, 3'000'001}) {
    std::vector<std::vector<std::uint8_t>> out, in;
    List<Send> sends;
    List<Receive> receives;
    const Bytes sent = ranks.sent_bytes(), received = ranks.received_bytes();
    Bytes to_send = 0, to_receive = 0;
    const auto size_of = [&](int from, int to) { return size + (size > 7 ? from * 3 + to : 0); };
    for (int peer = 0; peer < ranks.size(); ++peer) {
      out.push_back(made_bytes(me, peer, number, size_of(me, peer)));
      in.emplace_back(to_size(size_of(peer, me)), std::uint8_t{0xee});
    }
    for (int peer = 0; peer < ranks.size(); ++peer) {
      if (peer == me) continue;
      sends.push_back({peer, out[to_size(peer)].data(), size_of(me, peer)});
      receives.push_back({peer, in[to_size(peer)].data(), size_of(peer, me)});
      to_send += size_of(me, peer);
      to_receive += size_of(peer, me);
    }
    ranks.exchange(sends, receives);
    for (int peer = 0; peer < ranks.size(); ++peer) {
      if (peer == me) continue;
      expect_bytes(in[to_size(peer)], made_bytes(peer, me, number, size_of(peer, me)),
                   fmt::format("rank {} from {}", me, peer));
    }
    EXPECT_EQ(ranks.sent_bytes() - sent, to_send);
    EXPECT_EQ(ranks.received_bytes() - received, to_receive);
    ++number;
  }
}

// Several messages to one rank in one exchange and in exchanges that follow each other.
inline void keeps_the_order_between_two(Communicator& ranks) {
  const int me = ranks.rank();
  const int next = (me + 1) % ranks.size(), before = (me + ranks.size() - 1) % ranks.size();
  if (next == me) return;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> out, in(5, -1);
    for (int i = 0; i < 5; ++i) out.push_back(me * 1'000'000 + round * 100 + i);
    List<Send> sends;
    List<Receive> receives;
    for (std::size_t i = 0; i < 5; ++i) {
      sends.push_back({next, &out[i], 8});
      receives.push_back({before, &in[i], 8});
    }
    ranks.exchange(sends, receives);
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(in[to_size(i)], before * 1'000'000 + round * 100 + i) << "round " << round;
    }
  }
}

inline void broadcasts_and_gathers(Communicator& ranks) {
  const int me = ranks.rank(), size = ranks.size();
  for (int root = 0; root < size; ++root) {
    std::int64_t word = me == root ? 40 + root : -1;
    ranks.broadcast(root, &word, sizeof word);
    EXPECT_EQ(word, 40 + root);
    std::vector<std::int64_t> all(to_size(size), -1);
    const std::int64_t mine = 100 * root + me;
    ranks.gather(root, &mine, all.data(), sizeof mine);
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(all[to_size(r)], me == root ? 100 * root + r : -1) << "of rank " << r;
    }
  }
  const List<std::string> texts = ranks.gather_to_all(std::string(to_size(me), 'x') + "|");
  ASSERT_EQ(texts.count(), size);
  for (int r = 0; r < size; ++r) EXPECT_EQ(texts[r], std::string(to_size(r), 'x') + "|");
  ranks.barrier();
}

// Two threads of each rank at once, each on a communicator of its own.
inline void splits(Communicator& ranks) {
  const auto other = ranks.split();
  EXPECT_EQ(other->rank(), ranks.rank());
  EXPECT_EQ(other->size(), ranks.size());
  EXPECT_EQ(other->host(0), ranks.host(0));
  const auto work = [&](Communicator& own, std::int64_t add) {
    for (int i = 0; i < 100; ++i) {
      std::vector<std::int64_t> all(to_size(own.size()));
      const std::int64_t mine = add + 1000 * i + own.rank();
      own.gather_to_all(&mine, all.data(), sizeof mine);
      for (int r = 0; r < own.size(); ++r) {
        ASSERT_EQ(all[to_size(r)], add + 1000 * i + r) << "exchange " << i;
      }
    }
  };
  std::thread beside([&] { work(*other, 1'000'000); });
  work(ranks, 0);
  beside.join();
}

inline void refuses_peers_that_are_not_there(Communicator& ranks) {
  int word = 0;
  for (const int peer : {-1, ranks.size(), ranks.rank()}) {
    EXPECT_THROW(ranks.send(peer, &word, sizeof word), Error) << "to " << peer;
    EXPECT_THROW(ranks.receive(peer, &word, sizeof word), Error) << "from " << peer;
  }
}

struct Promise {
  const char* name;
  std::function<void(Communicator&)> run;
};
inline std::vector<Promise> promises() {
  return {{"KnowsItsGroup", knows_its_group},
          {"ExchangesAmongAll", exchanges_among_all},
          {"KeepsTheOrderBetweenTwo", keeps_the_order_between_two},
          {"BroadcastsAndGathers", broadcasts_and_gathers},
          {"Splits", splits},
          {"RefusesPeersThatAreNotThere", refuses_peers_that_are_not_there}};
}

// Failures end a group, so each has one of its own. `call` must throw what names the rank.
inline void expect_failure_of(int rank, const Communicator& ranks, const std::string& words,
                              const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "rank " << ranks.rank() << " noticed nothing";
  } catch (const RankError& error) {
    EXPECT_EQ(error.rank(), rank) << error.what();
    const std::string text = error.what();
    EXPECT_NE(text.find(ranks.name_of(rank)), std::string::npos) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

// The last rank fails; the others wait for it, on two communicators.
inline void tells_a_failure(Communicator& ranks) {
  const auto other = ranks.split();
  const int last = ranks.size() - 1;
  if (ranks.rank() == last) return ranks.fail("the disk is full");
  int word = 0;
  expect_failure_of(last, ranks, "the disk is full",
                    [&] { ranks.receive(last, &word, sizeof word); });
  expect_failure_of(last, ranks, "the disk is full",
                    [&] { other->receive(last, &word, sizeof word); });
}

// The last rank sends less than rank 0 expects.
inline void notices_another_length(Communicator& ranks) {
  const int last = ranks.size() - 1;
  std::int64_t words[2] = {};
  if (ranks.rank() == last) {
    try {
      ranks.send(0, words, 8);
    } catch (const RankError&) {
    }
  } else if (ranks.rank() == 0) {
    expect_failure_of(last, ranks, "it sent 8 bytes where rank 0 on host",
                      [&] { ranks.receive(last, words, 16); });
    ranks.fail("over");
  }
}

}  // namespace ebb::dist
