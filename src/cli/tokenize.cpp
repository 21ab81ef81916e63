#include "ebb/tokenize.h"

#include <unistd.h>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace ebb::cli {
namespace {

// One line that renews itself on a terminal, plain lines in a pipe.
void show(const TokenizeProgress& p, bool terminal) {
  print_out(fmt::format("{}{}% of {} items  {} tokens  {}/s{}{}", terminal ? "\r\033[K" : "",
                        p.of_items == 0 ? 100 : 100 * p.items / p.of_items,
                        format_count(p.of_items), format_count(p.tokens),
                        format_count(static_cast<std::int64_t>(p.tokens_per_second)),
                        time_left(p.seconds_left), terminal ? "" : "\n"));
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("tokenize", "Make a file of tokens from text, to train on it faster");
  auto options = std::make_shared<TokenizeOptions>();
  TokenizeOptions& o = *options;
  verb->add_option("--model", o.model, "A model's folder or GGUF file: its tokenizer is used");
  verb->add_option("--tokenizer", o.tokenizer, "A folder with tokenizer.json, or bytes");
  verb->add_option("--data", o.data,
                   "Text files, JSONL or CSV files of texts, also compressed (.gz, .zst), or "
                   "folders of them")
      ->required();
  verb->add_option("--out", o.out, "The file to make")->required();
  add_word(*verb, "--on-bad-data", o.on_bad_data,
           "stop: a line that cannot be used ends it; skip: it is passed over and counted");
  verb->add_option("--text-column", o.text_column,
                   "Of JSONL and CSV: the key or column that holds the text");
  verb->add_option("--threads", o.threads, "CPU threads; 0 for all that may be used")
      ->capture_default_str();
  verb->callback([options, &action] {
    action = [options] {
      // Its progress is on stdout, as there is no result beside it that scripts would read.
      const bool terminal = ::isatty(STDOUT_FILENO) != 0;
      const TokenizeSummary made =
          tokenize(*options, [&](const TokenizeProgress& p) { show(p, terminal); });
      // Leaves the last line of progress where it is.
      if (terminal) print_out("\n");
      for (const std::string& skipped : made.skipped)
        print_out(fmt::format("Left out: {}\n", skipped));
      if (made.bad_items > 0) {
        print_out(fmt::format("{} bad item{} skipped, the first: {}\n", made.bad_items,
                              made.bad_items == 1 ? "" : "s", made.first_bad_item));
      }
      print_out(fmt::format("{}: {} tokens of {} bytes from {} file{}, tokenizer {}, in {}\n",
                            options->out, made.tokens, made.bytes_per_token, made.files,
                            made.files == 1 ? "" : "s", made.tokenizer,
                            format_seconds(made.seconds)));
      return 0;
    };
  });
}

}  // namespace ebb::cli
