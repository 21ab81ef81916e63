#include <fstream>

#include <fmt/format.h>

#include "cli/progress.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "ebb/error.h"

namespace ebb::cli {
namespace {

constexpr int kInterrupted = 130;

// Made before the first step, so that a wrong path does not cost a run's numbers.
class SummaryFile {
 public:
  explicit SummaryFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) check(std::ofstream(path_, std::ios::app));
  }

  void write(const std::string& json) {
    if (path_.empty()) return;
    std::ofstream file(path_);
    file << json << '\n';
    file.flush();
    check(file);
  }

 private:
  void check(const std::ofstream& file) const {
    if (file) return;
    throw IoError(fmt::format(
        "--summary {}: cannot be written; give a file in a folder that exists and has room",
        path_));
  }

  std::string path_;
};

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("train", "Train a model under memory limits");
  const std::shared_ptr<TrainOptions> options = add_train_flags(*verb);
  auto summary = std::make_shared<std::string>();
  verb->add_option("--data", options->data, "Text, JSONL and token files, or folders of them")
      ->required();
  verb->add_option("--out", options->out, "Folder for checkpoints and the log; new or empty")
      ->required();
  verb->add_option("--save-every", options->save_every,
                   "Steps between checkpoints; 0: at the end only")
      ->capture_default_str()
      ->group("Run");
  verb->add_option("--keep", options->keep, "Checkpoints to keep; 0: save nothing")
      ->capture_default_str()
      ->group("Run");
  verb->add_flag(
          "--resume", options->resume,
          "Go on from the last checkpoint in --out, to the bit, wherever things are placed now")
      ->group("Run");
  verb->add_flag("!--no-verify", options->verify,
                 "Do not compare the files of a --model that is a checkpoint with its checksums")
      ->group("Run");
  verb->add_option("--summary", *summary, "Write what was measured to this JSON file")
      ->group("Run");
  verb->callback([options, summary, &action] {
    action = [options, summary] {
      SummaryFile file(*summary);
      Progress progress;
      Progress::catch_interrupts();
      options->summarize = !summary->empty();
      const TrainSummary result = train(*options, progress);
      file.write(result.json);
      return result.stopped ? kInterrupted : 0;
    };
  });
}

}  // namespace ebb::cli
