#include "dist/communicator.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::dist {

std::string Communicator::name_of(int rank) const {
  return fmt::format("rank {} on host {}", rank, host(rank));
}

void Communicator::check_peer(int rank) const {
  if (rank >= 0 && rank < size() && rank != rank_) return;
  throw Error(fmt::format("rank {} of {} has no peer {}", rank_, size(), rank));
}

void Communicator::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  Bytes out = 0, in = 0;
  for (const Send& send : sends) {
    check_peer(send.to);
    out += send.bytes;
  }
  for (const Receive& receive : receives) {
    check_peer(receive.from);
    in += receive.bytes;
  }
  if (sends.empty() && receives.empty()) return;
  run(sends, receives);
  sent_ += out;
  received_ += in;
}

void Communicator::send(int to, const void* data, Bytes bytes) {
  const Send one{to, data, bytes};
  exchange({&one, 1}, {});
}

void Communicator::receive(int from, void* data, Bytes bytes) {
  const Receive one{from, data, bytes};
  exchange({}, {&one, 1});
}

// Through rank 0: each has told it that it is here before any is told that all are.
void Communicator::barrier() {
  char here = 0;
  List<char> all(size());
  gather(0, &here, all.data(), 1);
  broadcast(0, &here, 1);
}

void Communicator::broadcast(int root, void* data, Bytes bytes) {
  if (rank_ != root) return receive(root, data, bytes);
  List<Send> sends;
  for (int other = 0; other < size(); ++other) {
    if (other != rank_) sends.push_back({other, data, bytes});
  }
  exchange(sends, {});
}

void Communicator::gather(int root, const void* mine, void* all, Bytes each) {
  if (rank_ != root) return send(root, mine, each);
  auto* const to = static_cast<std::byte*>(all);
  List<Receive> receives;
  for (int other = 0; other < size(); ++other) {
    if (other != rank_) receives.push_back({other, to + other * each, each});
  }
  std::memcpy(to + rank_ * each, mine, to_size(each));
  exchange({}, receives);
}

void Communicator::gather_to_all(const void* mine, void* all, Bytes each) {
  auto* const to = static_cast<std::byte*>(all);
  List<Send> sends;
  List<Receive> receives;
  for (int other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    sends.push_back({other, mine, each});
    receives.push_back({other, to + other * each, each});
  }
  std::memcpy(to + rank_ * each, mine, to_size(each));
  exchange(sends, receives);
}

List<std::string> Communicator::gather_to_all(const std::string& mine) {
  const auto length = static_cast<Bytes>(mine.size());
  List<Bytes> lengths(size());
  gather_to_all(&length, lengths.data(), sizeof(Bytes));
  List<std::string> texts;
  List<Send> sends;
  List<Receive> receives;
  for (int other = 0; other < size(); ++other) {
    const Bytes its = lengths[other];
    if (its < 0 || its > kMostText) {
      throw_failed({other, fmt::format("it announces a text of {} bytes", its)});
    }
    texts.emplace_back(to_size(its), '\0');
  }
  texts[rank_] = mine;
  for (int other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    sends.push_back({other, mine.data(), length});
    receives.push_back({other, texts[other].data(), lengths[other]});
  }
  exchange(sends, receives);
  return texts;
}

void Communicator::throw_failed(const Failure& failure) const {
  throw RankError(fmt::format("{} failed: {}", name_of(failure.rank), printable(failure.why, 2000)),
                  failure.rank, failure.why);
}

void Communicator::throw_late(int rank, Seconds waited) const {
  throw_failed({rank, fmt::format("it has not answered {} for {}; it hangs, has ended or cannot be "
                                  "reached",
                                  name_of(rank_), format_seconds(waited.count()))});
}

void Communicator::throw_other_length(int from, Bytes expected, Bytes found) const {
  throw_failed({from, fmt::format("it sent {} bytes where {} expected {}: they run different "
                                  "programs",
                                  found, name_of(rank_), expected)});
}

}  // namespace ebb::dist
