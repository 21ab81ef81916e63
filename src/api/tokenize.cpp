#include "ebb/tokenize.h"

#include <chrono>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/seconds_since.h"
#include "ebb/error.h"
#include "engine/settings.h"
#include "files/model/tokenizer.h"
#include "io/posix_file_system.h"
#include "text/data/read_ahead.h"
#include "text/data/token_file.h"

namespace ebb {
namespace {

// A text is cut where its tokens might be others than without the cut, so it is cut rarely.
constexpr Bytes kPassageBytes = kMiB;

files::ModelTokenizer choose_tokenizer(io::FileSystem& files, const TokenizeOptions& options) {
  if (options.model.empty() && options.tokenizer.empty()) {
    throw ConfigError(
        "--tokenizer: give a folder with tokenizer.json, or bytes; or give --model DIR, whose "
        "tokenizer is used then");
  }
  if (options.model.empty()) return files::load_tokenizer(files, {}, options.tokenizer);
  return files::find_tokenizer(files, files::find_model(files, options.model), options.tokenizer);
}

// A file of tokens has no place for what carries loss and for where examples begin.
void refuse_prompts(const text::DataSet& data) {
  for (const text::Form form : {text::Form::completions, text::Form::conversations}) {
    if (const text::ItemFile* file = data.find(form)) {
      throw ConfigError(fmt::format(
          "{} holds {}: a file of tokens could not say which of them carry loss. Give it to ebb "
          "train --data as it is; it is tokenized while the model computes",
          file->file().name(),
          form == text::Form::completions ? "prompts and completions"
                                          : "conversations or instructions"));
    }
  }
}

}  // namespace

TokenizeSummary tokenize(const TokenizeOptions& options,
                         const std::function<void(const TokenizeProgress&)>& progress) {
  io::PosixFileSystem files;
  if (options.out.empty()) throw ConfigError("--out: the file to make is missing");
  // Asked before the work: publishing replaces what lies under the name.
  if (files.exists(options.out)) {
    throw ConfigError(fmt::format(
        "--out {}: there is such a file already; remove it or give another name", options.out));
  }
  const int threads = engine::check_threads(options.threads);
  const files::ModelTokenizer found = choose_tokenizer(files, options);
  const text::Tokenizer& tokenizer = found.tokenizer();
  const text::DataSet data(
      files, {options.data.begin(), options.data.end()},
      {.tokenizer = &tokenizer, .vocabulary = tokenizer.vocabulary(), .chat = {}},
      {.passage_bytes = kPassageBytes,
       .skip_bad = options.on_bad_data == OnBadData::skip,
       .columns = {.text = options.text_column, .messages = {}}});
  refuse_prompts(data);

  const auto start = std::chrono::steady_clock::now();
  text::TokenFileWriter writer(files, options.out, tokenizer);
  // What waits to be written is bounded: 4 Mi tokens are 16 MiB, and the passages that are being
  // tokenized come on top, one for each worker. The order is that of the files, so the result does
  // not depend on the threads.
  text::ReadAhead ahead(data, text::file_order(data),
                        {.items = 256,
                         .tokens = std::int64_t{1} << 22,
                         .workers = threads > 0 ? threads : usable_cpus()});
  double reported = 0;
  std::int64_t done = 0;
  // Time left by items, not by tokens: how many tokens there will be is not known.
  const auto report = [&] {
    const double elapsed = seconds_since(start);
    const double rate = elapsed > 0 ? 1 / elapsed : 0;
    progress({.items = done,
              .of_items = data.items(),
              .tokens = writer.tokens(),
              .tokens_per_second = static_cast<double>(writer.tokens()) * rate,
              .seconds_left = done == 0 ? 0
                                        : elapsed * static_cast<double>(data.items() - done) /
                                              static_cast<double>(done)});
    reported = elapsed;
  };
  text::LeftOut left_out;
  while (const std::optional<text::VisitedItem> visited = ahead.next()) {
    const text::Item& item = visited->item;
    if (!item.problem.empty()) left_out.add({.bad_items = 1, .first_problem = item.problem});
    writer.write(item.tokens);
    ++done;
    if (seconds_since(start) - reported >= kSecondsBetweenReports) report();
  }
  // The writer was not finished: nothing is left under the file's name.
  if (writer.tokens() == 0) {
    throw FormatError(fmt::format("no item of the data can be used; the first of {} bad ones: {}",
                                  left_out.bad_items, left_out.first_problem));
  }
  writer.finish();
  report();

  TokenizeSummary summary{.tokens = writer.tokens(),
                          .bytes_per_token = writer.width(),
                          .tokenizer = tokenizer.name(),
                          .files = data.files(),
                          .skipped = {},
                          .bad_items = left_out.bad_items,
                          .first_bad_item = left_out.first_problem,
                          .seconds = seconds_since(start)};
  for (const text::SkippedFile& skipped : data.skipped()) {
    summary.skipped.push_back(fmt::format("{} ({})", skipped.path.string(), skipped.reason));
  }
  return summary;
}

}  // namespace ebb
