#include "dist/watchdog.h"

#include <algorithm>
#include <utility>

namespace ebb::dist {
namespace {

// Often enough that the end of a run does not wait for it.
constexpr Communicator::Seconds kMostPause{0.5};

}  // namespace

Watchdog::Watchdog(std::unique_ptr<Communicator> ranks, Communicator::Seconds timeout)
    : ranks_(std::move(ranks)), pause_(std::min(kMostPause, timeout / 4)) {
  ranks_->set_timeout(timeout);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  List<char> signs(ranks_->size());
  try {
    while (true) {
      char mine = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, pause_, [&] { return leaving_; });
        mine = leaving_ ? 1 : 0;
      }
      ranks_->gather_to_all(&mine, signs.data(), 1);
      if (std::all_of(signs.begin(), signs.end(), [](char sign) { return sign == 1; })) return;
    }
  } catch (const RankError& error) {
    ranks_->fail(error.rank(), error.why());
  }
}

}  // namespace ebb::dist
