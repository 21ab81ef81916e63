#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/progress.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "ebb/error.h"
#include "ebb/trainer.h"

namespace ebb::cli {
namespace {

// The file of --summary. It is there when a run has ended well, and only then: one of an earlier
// run is removed. That it can be made is proven before the first step, so that a wrong path does
// not cost a run's numbers. Throws IoError.
class SummaryFile {
 public:
  explicit SummaryFile(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    // A device or a pipe is written to as it is, and so is the output, whatever it is: where it
    // goes to a file, /dev/stdout is a link to that, and not one to be replaced.
    const auto kind = std::filesystem::status(path_).type();
    replaces_ = kind == std::filesystem::file_type::not_found ||
                (kind == std::filesystem::file_type::regular && !is_open_as(STDOUT_FILENO) &&
                 !is_open_as(STDERR_FILENO));
    check(std::ofstream(partial(), std::ios::app));
    if (!replaces_) return;
    std::error_code error;
    std::filesystem::remove(path_, error);
    check(!error);
    std::filesystem::remove(partial(), error);
  }

  void write(const std::string& json) {
    if (path_.empty()) return;
    std::ofstream file(partial(), replaces_ ? std::ios::out : std::ios::app);
    file << json << '\n';
    file.close();
    check(!file.fail());
    if (!replaces_) return;
    std::error_code error;
    std::filesystem::rename(partial(), path_, error);
    check(!error);
  }

 private:
  // Compares the file itself, as a path may be a link.
  bool is_open_as(int descriptor) const {
    struct stat named {};
    struct stat opened {};
    return ::stat(path_.c_str(), &named) == 0 && ::fstat(descriptor, &opened) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
  }

  std::string partial() const { return replaces_ ? path_ + ".partial" : path_; }

  void check(bool good) const {
    if (good) return;
    throw IoError(fmt::format(
        "--summary {}: cannot be written; give a file in a folder that exists and has room",
        path_));
  }
  void check(const std::ofstream& file) const { check(!file.fail()); }

  std::string path_;
  bool replaces_ = false;
};

void add_saving(CLI::App& verb, TrainOptions& o) {
  verb.add_option_function<std::string>(
          "--save-every", [&o](const std::string& text) { o.save_every = parse_save_every(text); },
          "Steps (500) or time (10min, 2h) between checkpoints; auto: every 10 minutes, or less "
          "often where saving takes more than 5% of the time; end: at the end only; 0: nothing is "
          "saved. A run that is stopped or fails saves what it has")
      ->default_str("auto")
      ->type_name("N|TIME")
      ->group("Run");
  verb.add_option_function<std::string>(
          "--save-patience",
          [&o](const std::string& text) {
            o.save_patience_seconds = parse_seconds(text, "--save-patience");
          },
          "How long a last save that fails, as on a full disk, is tried again")
      ->default_str("10min")
      ->type_name("TIME")
      ->group("Run");
  verb.add_option("--keep", o.keep, "Checkpoints to keep; 0: save nothing")
      ->capture_default_str()
      ->group("Run");
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("train", "Train a model under memory limits");
  const std::shared_ptr<TrainOptions> options = add_train_flags(*verb);
  auto summary = std::make_shared<std::string>();
  verb->add_option("--data", options->data, "Text, JSONL and token files, or folders of them")
      ->required();
  verb->add_option("--out", options->out, "Folder for checkpoints and the log; new or empty")
      ->required();
  add_saving(*verb, *options);
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
      // Before the model is read, which may take minutes: Ctrl-C is answered then, too.
      catch_interrupts();
      SummaryFile file(*summary);
      Progress progress;
      options->summarize = !summary->empty();
      // A summary in a folder of data is not read as data.
      if (options->summarize) options->outputs.push_back(*summary);
      const TrainSummary result = train(*options, progress);
      file.write(result.json);
      return result.stopped ? kInterrupted : 0;
    };
  });
}

}  // namespace ebb::cli
