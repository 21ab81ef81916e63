#include "ebb/check.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/stop_on_interrupt.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace ebb::cli {
namespace {

// Bad lines are the result, so they are on the output; how far it is, is not.
class CheckProgress final : public CheckObserver {
 public:
  ~CheckProgress() override { end_line(); }

  void note(const std::string& text) override {
    end_line();
    fmt::print(stderr, "{}\n", text);
  }

  void bad_item(const std::string& problem) override {
    end_line();
    print_out(problem + "\n");
  }

  void progress(std::int64_t items, std::int64_t of_items) override {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000));
    fmt::print(stderr, "{}{}% of {} items{}", terminal_ ? "\r\033[K" : "", 100 * items / of_items,
               format_count(of_items), terminal_ ? "" : "\n");
    line_shown_ = terminal_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void end_line() {
    if (std::exchange(line_shown_, false)) fmt::print(stderr, "\r\033[K");
  }

  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool line_shown_ = false;  // without its end
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
};

std::string many(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

// "1,204 of 4,000 (30%)"
std::string share_of(std::int64_t part, std::int64_t all) {
  return fmt::format("{} of {} ({:.0f}%)", format_count(part), format_count(all),
                     all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

std::string described(const CheckSummary& s, const CheckOptions& o) {
  std::string text;
  for (const CheckedFile& file : s.files) {
    text += fmt::format("{}: {} {}, {}{}\n", file.path, format_count(file.items), file.items_are,
                        many(file.tokens, "token"),
                        file.bad_items == 0
                            ? ""
                            : fmt::format("; {} cannot be used", many(file.bad_items, "line")));
  }
  for (const std::string& file : s.left_out) text += fmt::format("No data: {}\n", file);
  for (const std::string& what : s.broken) text += fmt::format("Cannot be used: {}\n", what);
  text += fmt::format("{}: {}, of which {} carry loss\n", many(s.items, "item"),
                      many(s.tokens, "token"), share_of(s.learned_tokens, s.tokens));
  if (s.longest > 0) {
    text += fmt::format("The longest has {}: {}\n", many(s.longest, "token"), s.longest_where);
  }
  if (s.cut_items > 0) {
    text +=
        fmt::format("{} longer than --sequence {} with --packing {}, and lose {} at their ends\n",
                    s.cut_items == 1 ? "1 example is" : many(s.cut_items, "example") + " are",
                    o.sequence, s.packing, many(s.cut_tokens, "token"));
  }
  if (s.bad_items > 0) {
    text +=
        fmt::format("{} cannot be used, named above; mend them, or train with --on-bad-data skip\n",
                    many(s.bad_items, "line"));
  } else if (s.good()) {
    text += "All of it can be used\n";
  }
  return text;
}

// Tokens by their text, those that carry loss in green, every other one underlined.
std::string in_colour(const CheckedExample& example) {
  std::string text = fmt::format("\033[1mExample: {}\033[0m\n", example.where);
  bool underlined = false;
  for (const CheckedToken& token : example.tokens) {
    if (token.begins_another) text += "\033[0m\n\033[1mThe same up to its next answer:\033[0m\n";
    // Nothing runs over the end of a line, where terminals would paint on.
    std::string shown;
    for (const char c : token.text)
      shown += c == '\n' ? std::string("⏎\033[0m\n") : std::string(1, c);
    text += fmt::format("\033[{}{}m{}\033[0m", token.learned ? "32" : "2", underlined ? ";4" : "",
                        shown);
    underlined = !underlined;
  }
  return text + "\n\033[32mGreen\033[0m carries loss; every other token is underlined\n";
}

// One a line: what a script or a diff wants.
std::string as_table(const CheckedExample& example) {
  std::string text = fmt::format("Example: {}\n", example.where);
  for (const CheckedToken& token : example.tokens) {
    if (token.begins_another) text += "The same up to its next answer:\n";
    std::string shown;
    for (const char c : token.text) {
      shown += c == '\n' ? std::string("\\n") : c == '\t' ? std::string("\\t") : std::string(1, c);
    }
    text += fmt::format("{:>8}  {}  {}\n", token.id, token.learned ? "loss" : "  - ", shown);
  }
  return text;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "check", "Read all data as training would, name every bad line, show what the model sees");
  auto options = std::make_shared<CheckOptions>();
  CheckOptions& o = *options;
  verb->add_option("--model", o.model,
                   "A model's folder or GGUF file, a run's folder, or preset:NAME");
  verb->add_option("--tokenizer", o.tokenizer,
                   "A folder with tokenizer.json, or bytes; the model's own if not given");
  verb->add_option("--data", o.data,
                   "Text, JSONL, CSV and token files, also compressed (.gz, .zst), or folders of "
                   "them")
      ->required();
  verb->add_option("--sequence", o.sequence, "Tokens in a row: longer examples lose their ends")
      ->capture_default_str();
  add_word(*verb, "--packing", o.packing, "As of ebb train: stream, fit, none or auto");
  add_word(*verb, "--loss", o.loss,
           "completion: prompts and what users say carry no loss; all: they do");
  verb->add_option("--text-column", o.text_column,
                   "Of JSONL and CSV: the key or column that holds the text");
  verb->add_option("--messages-column", o.messages_column,
                   "Of JSONL and CSV: the key or column that holds the messages");
  verb->add_option("--examples", o.examples, "Examples of each kind of data to show")
      ->capture_default_str();
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  verb->callback([options, &action] {
    action = [options] {
      StopOnInterrupt interrupts(StopOnInterrupt::Second::ends_process);
      CheckSummary summary;
      {
        CheckProgress progress;
        summary = check(*options, progress, interrupts.begin());
      }
      const char* no_colour = std::getenv("NO_COLOR");
      const bool colour =
          ::isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
      for (const CheckedExample& example : summary.examples) {
        print_out((colour ? in_colour(example) : as_table(example)) + "\n");
      }
      print_out(described(summary, *options));
      // So that a script knows.
      return summary.good() ? 0 : 1;
    };
  });
}

}  // namespace ebb::cli
