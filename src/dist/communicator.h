// The dist room: ranks that work on one run, in processes on one machine or on several. It moves
// bytes between their memories and knows nothing of what they mean; sums over ranks are made by who
// receives them, in an order of his own, so that they do not depend on a transport. Transports are
// folders: self/ (one rank), threads/ (ranks of one process) and mpi/, with no_mpi/ in a build
// without. Serves `engine`.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "base/list.h"
#include "dist/rank_error.h"
#include "ebb/units.h"

namespace ebb::dist {

// Messages of one exchange; their memory is of the host and stays until it has ended.
struct Send {
  int to = 0;
  const void* data = nullptr;
  Bytes bytes = 0;
};
struct Receive {
  int from = 0;
  void* data = nullptr;
  Bytes bytes = 0;
};

// One rank's end of a group of ranks. Calls come from one thread at a time; what several threads do
// at once each does on a communicator of its own (split()).
class Communicator {
 public:
  using Seconds = std::chrono::duration<double>;

  Communicator(int rank, int size) : rank_(rank), hosts_(List<std::string>(size)) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.count()); }
  // The machine that a rank runs on.
  const std::string& host(int rank) const { return hosts_[rank]; }
  // "rank 3 on host node7"
  std::string name_of(int rank) const;

  // How long an exchange may stand still before it throws; 0, as at first: for ever.
  void set_timeout(Seconds timeout) { timeout_ = timeout; }

  // Sends and receives all of them at once, in any order between ranks; between two of them in the
  // order of the lists. On return all have arrived: what was sent may be changed, what was to be
  // received is there. Messages between two ranks are as long on both sides. Throws RankError that
  // names the rank which failed, left, sent something else or did not answer in time; after that
  // only fail() may follow.
  void exchange(std::span<const Send> sends, std::span<const Receive> receives);

  void send(int to, const void* data, Bytes bytes);
  void receive(int from, void* data, Bytes bytes);
  // All ranks call these, in the same order.
  void barrier();
  void broadcast(int root, void* data, Bytes bytes);
  // `each` bytes of every rank, in the order of ranks, to `all` of the root.
  void gather(int root, const void* mine, void* all, Bytes each);
  void gather_to_all(const void* mine, void* all, Bytes each);
  // The same for texts of any length, up to kMostText.
  List<std::string> gather_to_all(const std::string& mine);
  static constexpr Bytes kMostText = 64 * kMiB;

  // Another communicator of the same ranks, whose messages and failures are apart from this one's
  // but for fail(), and without a timeout. All ranks call it, in the same order.
  virtual std::unique_ptr<Communicator> split() = 0;

  // Any thread. The group ends, because a rank has failed, this one where nothing else is said:
  // what any rank waits for, or will, on any communicator of the group, throws with this reason.
  // Only the first reason counts. Waits for nobody that does not answer, and does not throw.
  void fail(const std::string& why) noexcept { end({rank_, why}); }
  void fail(int rank, const std::string& why) noexcept { end({rank, why}); }

  // Bytes of all messages so far.
  Bytes sent_bytes() const { return sent_; }
  Bytes received_bytes() const { return received_; }

 protected:
  struct Failure {
    int rank = 0;
    std::string why;
  };
  virtual void end(const Failure& failure) noexcept = 0;

  // The exchange itself, of messages between ranks that there are.
  virtual void run(std::span<const Send> sends, std::span<const Receive> receives) = 0;

  Seconds timeout() const { return timeout_; }
  void set_hosts(List<std::string> hosts) { hosts_ = std::move(hosts); }
  // What to throw.
  [[noreturn]] void throw_failed(const Failure& failure) const;
  [[noreturn]] void throw_late(int rank, Seconds waited) const;
  [[noreturn]] void throw_other_length(int from, Bytes expected, Bytes found) const;

 private:
  void check_peer(int rank) const;

  int rank_;
  List<std::string> hosts_;  // by rank
  Seconds timeout_{0};
  std::atomic<Bytes> sent_{0}, received_{0};
};

}  // namespace ebb::dist
