#include "ebb/watch.h"

#include <chrono>
#include <thread>

#include "cli/progress.h"
#include "cli/verbs.h"

namespace ebb::cli {
namespace {

constexpr std::chrono::milliseconds kPause{500};

}  // namespace

void add_watch(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "watch", "Follow another process's run: on a terminal a live view, in a pipe a line a step");
  auto run = std::make_shared<std::string>();
  verb->add_option("run", *run, "The folder of a run, as 'ebb train --out' made it")->required();
  verb->callback([run, &action] {
    action = [run] {
      RunWatch watch(*run);
      Progress progress(Progress::Detail::usual);
      // Asked before the log is read: what a run wrote last is shown, too. Ctrl-C ends the watcher,
      // never the run.
      for (bool running = true; running;) {
        running = watch.running();
        watch.poll(progress);
        progress.show();
        if (running) std::this_thread::sleep_for(kPause);
      }
      progress.note("The run has ended");
      return 0;
    };
  });
}

}  // namespace ebb::cli
