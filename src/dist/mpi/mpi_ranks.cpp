#include "dist/mpi_ranks.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "dist/host_name.h"
#include "ebb/error.h"

namespace ebb::dist {
namespace {

// A count of MPI is an int: longer messages go in several.
constexpr Bytes kMostBytes = kGiB;
constexpr std::size_t kMostReason = 2000;
// A rank that waits asks again at once for so long, then leaves the core to others.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::microseconds kNap{50};
// How long a rank that fails tries to tell the others.
constexpr std::chrono::milliseconds kTelling{500};

std::string words_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), to_size(length)};
}

void check(int code, const char* what) {
  if (code != MPI_SUCCESS) throw Error(fmt::format("MPI: {}: {}", what, words_of(code)));
}

// MPI as such, and the communicator on which failures are told.
class World {
 public:
  World() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw ConfigError(
          "this MPI allows no calls from several threads (MPI_THREAD_MULTIPLE), which Ebb needs; "
          "use one that does, such as Open MPI 4");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(MPI_COMM_WORLD, &failures_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(failures_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  // Where a rank has failed the others may be gone: finalising would wait for them.
  ~World() {
    if (failed_) return;
    MPI_Comm_free(&failures_);
    MPI_Finalize();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  void tell(int rank, const std::string& why) {
    std::lock_guard lock(mutex_);
    failed_ = true;
    if (heard_) return;
    std::vector<MPI_Request> told(to_size(size_), MPI_REQUEST_NULL);
    // They stay: others may take them late.
    reason_ = fmt::format("{} {}", rank, why).substr(0, kMostReason);
    heard_ = {rank, why};  // what this rank waits for ends, too
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Isend(reason_.data(), static_cast<int>(reason_.size()), MPI_CHAR, other, 0, failures_,
                &told[to_size(other)]);
    }
    const auto end = std::chrono::steady_clock::now() + kTelling;
    for (int done = 0; done == 0 && std::chrono::steady_clock::now() < end;) {
      if (MPI_Testall(size_, told.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
    }
  }

  // The first that was told, by the rank that has failed: it, and why.
  std::optional<std::pair<int, std::string>> failure() {
    std::lock_guard lock(mutex_);
    if (heard_) return heard_;
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, failures_, &there, &status) != MPI_SUCCESS || there == 0) {
      return std::nullopt;
    }
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string told(to_size(std::max(0, length)), '\0');
    MPI_Recv(told.data(), length, MPI_CHAR, status.MPI_SOURCE, 0, failures_, MPI_STATUS_IGNORE);
    failed_ = true;
    int rank = status.MPI_SOURCE;
    const auto [end, code] = std::from_chars(told.data(), told.data() + told.size(), rank);
    const bool known = code == std::errc{} && rank >= 0 && rank < size_;
    heard_ = {known ? rank : status.MPI_SOURCE,
              told.substr(std::min(told.size(), to_size(end - told.data()) + 1))};
    return heard_;
  }
  void give_up() { failed_ = true; }

 private:
  int rank_ = 0, size_ = 1;
  MPI_Comm failures_ = MPI_COMM_NULL;
  std::mutex mutex_;
  std::string reason_;
  std::optional<std::pair<int, std::string>> heard_;
  std::atomic<bool> failed_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  // Takes the communicator.
  MpiCommunicator(std::shared_ptr<World> world, MPI_Comm comm)
      : Communicator(world->rank(), world->size()), world_(std::move(world)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    set_hosts(List<std::string>(size(), "unknown"));
    set_hosts(gather_to_all(host_name()));
  }
  MpiCommunicator(std::shared_ptr<World> world, MPI_Comm comm, List<std::string> hosts)
      : Communicator(world->rank(), world->size()), world_(std::move(world)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    set_hosts(std::move(hosts));
  }
  ~MpiCommunicator() override {
    // Freed together: after a failure others may never come.
    if (!failed_ && !world_->failure()) MPI_Comm_free(&comm_);
  }

  std::unique_ptr<Communicator> split() override {
    MPI_Comm other = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm_, &other), "MPI_Comm_dup");
    List<std::string> hosts;
    for (int r = 0; r < size(); ++r) hosts.push_back(host(r));
    return std::make_unique<MpiCommunicator>(world_, other, std::move(hosts));
  }

 private:
  void end(const Failure& failure) noexcept override {
    try {
      world_->tell(failure.rank, failure.why);
    } catch (...) {
      world_->give_up();
    }
  }

  using Clock = std::chrono::steady_clock;

  // The messages of an exchange that are under way, in pieces that MPI can count.
  struct Pending {
    std::vector<MPI_Request> requests;
    struct Piece {
      int peer = 0;
      Bytes bytes = 0;
      bool comes = false;
    };
    List<Piece> pieces;  // by request
    // What does not come to its end is called off: its memory goes.
    ~Pending() {
      for (MPI_Request& request : requests) {
        if (request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  };

  template <class Begin>
  static void in_pieces(Bytes bytes, Begin begin) {
    for (Bytes first = 0;; first += kMostBytes) {
      const Bytes piece = std::min(kMostBytes, bytes - first);
      begin(first, static_cast<int>(piece));
      if (first + piece == bytes) return;
    }
  }

  void run(std::span<const Send> sends, std::span<const Receive> receives) override {
    failed_ = true;  // unless it comes to its end
    Pending pending;
    for (const Receive& receive : receives) {
      in_pieces(receive.bytes, [&](Bytes first, int bytes) {
        pending.pieces.push_back({receive.from, bytes, true});
        check(MPI_Irecv(static_cast<std::byte*>(receive.data) + first, bytes, MPI_BYTE,
                        receive.from, 0, comm_, &pending.requests.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
      });
    }
    for (const Send& send : sends) {
      in_pieces(send.bytes, [&](Bytes first, int bytes) {
        pending.pieces.push_back({send.to, bytes, false});
        check(MPI_Isend(static_cast<const std::byte*>(send.data) + first, bytes, MPI_BYTE, send.to,
                        0, comm_, &pending.requests.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
      });
    }
    wait_for(pending);
    failed_ = false;
  }

  void wait_for(Pending& pending) {
    const auto count = static_cast<int>(pending.requests.size());
    std::vector<int> ended(pending.requests.size());
    std::vector<MPI_Status> states(pending.requests.size());
    Clock::time_point since = Clock::now();
    for (int left = count; left > 0;) {
      int now = 0;
      const int code =
          MPI_Testsome(count, pending.requests.data(), &now, ended.data(), states.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
      for (int i = 0; i < now; ++i) {
        const Pending::Piece& piece = pending.pieces[ended[to_size(i)]];
        check_ended(piece, states[to_size(i)], code == MPI_ERR_IN_STATUS);
      }
      if (now > 0) {
        left -= now;
        since = Clock::now();
        continue;
      }
      const auto waited = Clock::now() - since;
      if (const auto failure = world_->failure()) throw_failed({failure->first, failure->second});
      if (timeout().count() > 0 && waited >= timeout()) {
        world_->give_up();
        throw_late(first_missing(pending), waited);
      }
      if (waited < kSpin) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
  }

  void check_ended(const Pending::Piece& piece, const MPI_Status& status, bool may_fail) {
    if (may_fail && status.MPI_ERROR != MPI_SUCCESS) {
      int kind = 0;
      MPI_Error_class(status.MPI_ERROR, &kind);
      world_->give_up();
      throw_failed({piece.peer, kind == MPI_ERR_TRUNCATE
                                    ? fmt::format("it sent more than the {} bytes that were "
                                                  "expected: it runs a different program",
                                                  piece.bytes)
                                    : words_of(status.MPI_ERROR)});
    }
    if (!piece.comes) return;
    int found = 0;
    MPI_Get_count(&status, MPI_BYTE, &found);
    if (found != piece.bytes) throw_other_length(piece.peer, piece.bytes, found);
  }

  static int first_missing(const Pending& pending) {
    for (std::size_t i = 0; i < pending.requests.size(); ++i) {
      if (pending.requests[i] != MPI_REQUEST_NULL) return pending.pieces[i].peer;
    }
    return 0;
  }

  std::shared_ptr<World> world_;
  MPI_Comm comm_;
  bool failed_ = false;
};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Communicator> connect_by_mpi() {
  auto world = std::make_shared<World>();
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(std::move(world), comm);
}

}  // namespace ebb::dist
