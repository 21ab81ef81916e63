// A child of fork() has the optimizer's memory but not its threads: it is told so, and does not
// hang.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "ebb/error.h"
#include "hand_run.h"
#include "io/temp_folder.h"

namespace ebb::hybrid {
namespace {

// The most that a child may take, in seconds: far more than it needs.
constexpr unsigned kPatience = 60;

// The address sanitizer's allocator, unlike the C library's, is not made whole again in a child:
// what a thread had locked at the fork stays locked. So all threads but this one must be asleep
// there; those that have just been started allocate.
void wait_until_others_sleep() {
#ifdef __SANITIZE_ADDRESS__
  const auto asleep = [](const std::filesystem::path& task) {
    std::ifstream file(task / "stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    const std::size_t name_end = stat.rfind(')');  // "pid (name) state ..."
    return name_end == std::string::npos || stat.substr(name_end + 2, 1) == "S";
  };
  const std::string own = std::to_string(::gettid());
  for (bool all = false; !all; ::usleep(1000)) {
    all = true;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      all = all && (task.path().filename() == own || asleep(task.path()));
    }
  }
#endif
}

// What the child ended with: the number that `act` returned, or minus the signal that ended it.
int in_child(const std::function<int()>& act) {
  wait_until_others_sleep();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatience);
    int result = 99;
    try {
      result = act();
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

HybridOptimizer::Settings settings_of(const std::string& states) {
  return {.rule = {}, .states = states, .chunk_parameters = 4096, .threads = 3};
}

class ForkTest : public testing::TestWithParam<std::string> {
 protected:
  Loop loop{small_shapes()};
  io::TempFolder folder;
};

TEST_P(ForkTest, EveryCallOfTheChildIsRefused) {
  HybridOptimizer optimizer(settings_of(GetParam()), loop.parameters());
  std::vector<float> master(static_cast<std::size_t>(loop.tensors[0].shape.count));
  const std::string file = (folder / "state").string();
  optimizer.save(file);
  const std::function<void()> calls[] = {
      [&] { optimizer.parameters(); },
      [&] { optimizer.steps(); },
      [&] { optimizer.placement(); },
      [&] { optimizer.traffic(); },
      [&] { optimizer.set_gradient(0, loop.tensors[0].gradient.data()); },
      [&] { optimizer.gradient_ready(0); },
      [&] { optimizer.step(1e-3); },
      [&] { optimizer.wait_for_weight(0); },
      [&] { optimizer.wait(); },
      [&] { optimizer.weights_changed(); },
      [&] { optimizer.save(file); },
      [&] { optimizer.load(file); },
      [&] { optimizer.read_master(0, master); },
      [&] { optimizer.weights_digest(); },
      [&] { optimizer.moments_digest(); },
  };
  const auto refused = [&] {
    int count = 0;
    for (const auto& call : calls) {
      try {
        call();
      } catch (const DeviceError& error) {
        if (std::string(error.what()).find("a child of fork()") != std::string::npos) ++count;
      }
    }
    return count;
  };
  EXPECT_EQ(in_child(refused), static_cast<int>(std::size(calls)));
  // The parent goes on as if nothing had happened.
  for (std::size_t t = loop.tensors.size(); t-- > 0;) {
    loop.make_gradient(t, 1);
    optimizer.gradient_ready(static_cast<std::int64_t>(t));
  }
  EXPECT_TRUE(optimizer.step(1e-3).applied);
  optimizer.wait();
}

TEST_P(ForkTest, TheChildDestroysItAndMakesItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a child of several threads that starts one";
#endif
  auto optimizer = std::make_unique<HybridOptimizer>(settings_of(GetParam()), loop.parameters());
  EXPECT_EQ(in_child([&] {
              optimizer.reset();
              HybridOptimizer own(settings_of(GetParam()), loop.parameters());
              return own.parameters() == 6 ? 7 : 8;
            }),
            7);
  // Assigning destroys, too.
  EXPECT_EQ(in_child([&] {
              *optimizer = HybridOptimizer(settings_of(GetParam()), loop.parameters());
              return optimizer->parameters() == 6 ? 7 : 8;
            }),
            7);
}

INSTANTIATE_TEST_SUITE_P(States, ForkTest, testing::Values("resident", "stream", "host"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ebb::hybrid
