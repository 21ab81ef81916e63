// Runs ranks as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "dist/threads/thread_communicator.h"

namespace ebb::dist {

// Calls work with each rank's end, all at once. A rank that throws fails the test, and ends the
// others' waiting.
inline void run_ranks(int count, const std::function<void(Communicator&)>& work) {
  List<std::unique_ptr<Communicator>> ranks = make_thread_ranks(count);
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r) {
    threads.emplace_back([&, r] {
      try {
        work(*ranks[r]);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
        ranks[r]->fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ebb::dist
