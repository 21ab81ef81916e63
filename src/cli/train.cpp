#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "cli/config_file.h"
#include "cli/interrupts.h"
#include "cli/kept_settings.h"
#include "cli/progress.h"
#include "cli/train_flags.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "ebb/error.h"

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

// A bare number is steps, one with a unit a time. Throws ConfigError.
SaveEvery parse_save_every(const std::string& text) {
  using Kind = SaveEvery::Kind;
  if (text == "auto") return {Kind::automatic};
  if (text == "end") return {Kind::end};
  std::int64_t steps = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (code == std::errc{} && rest == text.data() + text.size() && steps >= 0) {
    return steps == 0 ? SaveEvery{Kind::never} : SaveEvery{Kind::steps, static_cast<double>(steps)};
  }
  try {
    const double seconds = parse_seconds(text, "--save-every");
    if (seconds > 0) return {Kind::seconds, seconds};
  } catch (const ConfigError&) {
    // Told with all that can be said here.
  }
  throw ConfigError(fmt::format(
      "--save-every {}: expected steps (500), a time (10min, 2h), auto, end (at the end only) or "
      "0 (nothing is saved)",
      text));
}

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

// --resume alone, and --resume RUN. `run` stays empty where --out says which.
void add_resume(CLI::App& verb, TrainOptions& o, std::string& run) {
  verb.add_option_function<std::string>(
          "--resume",
          [&](const std::string& folder) {
            o.resume = true;
            run = folder;
          },
          "Go on from the last checkpoint in --out, to the bit, wherever things are placed now. "
          "With a run's folder no other flag is needed: its settings are those it was started "
          "with, and what the command line says wins")
      ->expected(0, 1)
      ->type_name("[RUN]")
      ->group("Run");
}

// What is not in the folder must be on the command line, as for a run of the C++ API.
void take_kept_settings(const ConfigFlag& config, const CLI::Option& out, const std::string& run,
                        TrainOptions& o) {
  namespace fs = std::filesystem;
  const std::string flag = "--resume " + run;
  std::error_code error;
  if (!fs::is_directory(run, error)) {
    throw ConfigError(
        fmt::format("{}: there is no such folder; give the one that --out named", flag));
  }
  if (!out.empty() && !fs::equivalent(o.out, run, error)) {
    throw ConfigError(
        fmt::format("{}: --out {} names another folder; leave --out out", flag, o.out));
  }
  o.out = run;
  const std::string file = (fs::path(run) / kSettingsName).string();
  if (fs::exists(file, error)) {
    config.apply(file, "--resume " + file);
  } else if (!config.has_required(out)) {
    throw ConfigError(fmt::format(
        "{}: the folder has no {}, which runs of the command line keep; give the run's folder (not "
        "that of a checkpoint), or the run's flags again with --resume",
        flag, kSettingsName));
  }
}

struct TrainRequest {
  TrainOptions options;
  std::string resume;  // the folder of --resume, if it names one
  std::string summary;
  bool quiet = false;
  bool verbose = false;
};

int run(TrainRequest& request) {
  TrainOptions& options = request.options;
  // Before the model is read, which may take minutes: Ctrl-C is answered then, too.
  catch_interrupts();
  SummaryFile file(request.summary);
  Progress progress(request.quiet     ? Progress::Detail::nothing
                    : request.verbose ? Progress::Detail::everything
                                      : Progress::Detail::usual);
  options.summarize = !request.summary.empty();
  // A summary in a folder of data is not read as data.
  if (options.summarize) options.outputs.push_back(request.summary);
  const TrainSummary result = train(options, progress);
  file.write(result.json);
  return result.stopped ? kInterrupted : 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("train", "Train a model under memory limits");
  auto request = std::make_shared<TrainRequest>();
  TrainOptions& o = request->options;
  add_train_flags(*verb, o);
  verb->add_option("--data", o.data,
                   "Text, JSONL, CSV and token files, also as .gz or .zst, or folders of them")
      ->type_name(kPathType)
      ->required();
  CLI::Option* out =
      verb->add_option("--out", o.out, "Folder for checkpoints and the log; new or empty")
          ->type_name(kPathType)
          ->required();
  add_saving(*verb, o);
  add_resume(*verb, o, request->resume);
  verb->add_flag("!--no-verify", o.verify,
                 "Do not compare the files of a --model that is a checkpoint with its checksums")
      ->group("Run");
  add_words(*verb, "--log", o.log,
            "Write the log, besides log.jsonl, as csv (log.csv), tensorboard (event files in the "
            "folder tensorboard), or both")
      ->group("Run");
  verb->add_option("--summary", request->summary, "Write what was measured to this JSON file")
      ->type_name(kFileType)
      ->group("Run");
  CLI::Option* quiet =
      verb->add_flag("--quiet", request->quiet, "Print nothing but errors; the log has the steps");
  quiet->group("Run");
  verb->add_flag("--verbose", request->verbose,
                 "Print the whole plan, where its speeds are from, and what starting took")
      ->excludes(quiet)
      ->group("Run");
  const ConfigFlag config(*verb);
  verb->callback([request, config, verb, out, &action] {
    config.apply();
    if (request->resume.empty()) {
      config.check_required();
    } else {
      take_kept_settings(config, *out, request->resume, request->options);
    }
    request->options.settings = settings_text(
        *verb, {"out", "resume", "config", "accept-changed-data", "quiet", "verbose"});
    action = [request] { return run(*request); };
  });
}

}  // namespace ebb::cli
