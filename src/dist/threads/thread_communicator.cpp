#include "dist/threads/thread_communicator.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/to_size.h"
#include "dist/host_name.h"

namespace ebb::dist {
namespace {

// A message that its sender has offered; it lies in the sender's memory until it is taken.
struct Offer {
  const void* data = nullptr;
  Bytes bytes = 0;
  enum class State { waits, is_copied, done } state = State::waits;
};

// What all communicators of a group share: the failure that ends them all.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::pair<int, std::string>> failure;  // of a rank, and why
};

// One communicator's messages, and those that were split off it.
struct Channel {
  explicit Channel(int size) : offers(size * size), gone(size, false) {}

  List<std::deque<Offer*>> offers;  // by sender * size + receiver
  List<bool> gone;                  // by rank
  List<std::shared_ptr<Channel>> split_off{};
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, int size, std::shared_ptr<Group> group,
                     std::shared_ptr<Channel> channel)
      : Communicator(rank, size), group_(std::move(group)), channel_(std::move(channel)) {
    set_hosts(List<std::string>(size, host_name()));
  }

  ~ThreadCommunicator() override {
    std::lock_guard lock(group_->mutex);
    channel_->gone[rank()] = true;
    group_->changed.notify_all();
  }

  std::unique_ptr<Communicator> split() override {
    std::lock_guard lock(group_->mutex);
    if (splits_ == channel_->split_off.count()) {
      channel_->split_off.push_back(std::make_shared<Channel>(size()));
    }
    return std::make_unique<ThreadCommunicator>(rank(), size(), group_,
                                                channel_->split_off[splits_++]);
  }

 private:
  void end(const Failure& failure) noexcept override {
    std::lock_guard lock(group_->mutex);
    if (!group_->failure) group_->failure = {failure.rank, failure.why};
    group_->changed.notify_all();
  }

  using Clock = std::chrono::steady_clock;

  std::deque<Offer*>& offers(int from, int to) { return channel_->offers[from * size() + to]; }

  void run(std::span<const Send> sends, std::span<const Receive> receives) override {
    std::unique_lock lock(group_->mutex);
    std::deque<Offer> offered;
    for (const Send& send : sends) {
      offers(rank(), send.to).push_back(&offered.emplace_back(Offer{send.data, send.bytes}));
    }
    group_->changed.notify_all();
    List<bool> received(receives.size(), false);
    try {
      for (Clock::time_point since = Clock::now();;) {
        if (receive_what_is_there(lock, receives, received)) since = Clock::now();
        const int peer = first_missing(sends, offered, receives, received);
        if (peer < 0) return;
        check(peer, since);
        wait(lock, since);
      }
    } catch (...) {
      take_back(lock, sends, offered);
      throw;
    }
  }

  // Whether any was. The lock is open while bytes are copied.
  bool receive_what_is_there(std::unique_lock<std::mutex>& lock, std::span<const Receive> receives,
                             List<bool>& received) {
    bool any = false;
    List<bool> behind(size(), false);  // of the sender an earlier message is missing
    for (std::size_t i = 0; i < receives.size(); ++i) {
      const Receive& wanted = receives[i];
      std::deque<Offer*>& from = offers(wanted.from, rank());
      if (received[i] || behind[wanted.from]) continue;
      if (from.empty()) {
        behind[wanted.from] = true;
        continue;
      }
      Offer& offer = *from.front();
      if (offer.bytes != wanted.bytes) throw_other_length(wanted.from, wanted.bytes, offer.bytes);
      from.pop_front();
      offer.state = Offer::State::is_copied;
      lock.unlock();
      if (wanted.bytes > 0) std::memcpy(wanted.data, offer.data, to_size(wanted.bytes));
      lock.lock();
      offer.state = Offer::State::done;
      group_->changed.notify_all();
      received[i] = any = true;
    }
    return any;
  }

  // A peer whose message or whose taking of one is missing; -1 where nothing is.
  static int first_missing(std::span<const Send> sends, const std::deque<Offer>& offered,
                           std::span<const Receive> receives, const List<bool>& received) {
    for (std::size_t i = 0; i < receives.size(); ++i) {
      if (!received[i]) return receives[i].from;
    }
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (offered[i].state != Offer::State::done) return sends[i].to;
    }
    return -1;
  }

  void check(int peer, Clock::time_point since) const {
    if (group_->failure) throw_failed({group_->failure->first, group_->failure->second});
    if (channel_->gone[peer]) throw_failed({peer, "it has left"});
    const Seconds waited = Clock::now() - since;
    if (timeout().count() > 0 && waited >= timeout()) throw_late(peer, waited);
  }

  void wait(std::unique_lock<std::mutex>& lock, Clock::time_point since) {
    if (timeout().count() <= 0) return group_->changed.wait(lock);
    group_->changed.wait_until(lock,
                               since + std::chrono::duration_cast<Clock::duration>(timeout()));
  }

  // Nobody may copy from this memory any more.
  void take_back(std::unique_lock<std::mutex>& lock, std::span<const Send> sends,
                 std::deque<Offer>& offered) {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      std::erase(offers(rank(), sends[i].to), &offered[i]);
    }
    group_->changed.wait(lock, [&] {
      for (const Offer& offer : offered) {
        if (offer.state == Offer::State::is_copied) return false;
      }
      return true;
    });
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<Channel> channel_;
  std::int64_t splits_ = 0;
};

}  // namespace

List<std::unique_ptr<Communicator>> make_thread_ranks(int count) {
  const auto group = std::make_shared<Group>();
  const auto channel = std::make_shared<Channel>(count);
  List<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(std::make_unique<ThreadCommunicator>(rank, count, group, channel));
  }
  return ranks;
}

}  // namespace ebb::dist
