#include "ebb/check.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/utf8.h"
#include "ebb/error.h"
#include "engine/settings.h"
#include "engine/training_data.h"
#include "files/model/tokenizer.h"
#include "io/posix_file_system.h"
#include "io/stoppable_file_system.h"
#include "text/data/read_ahead.h"

namespace ebb {
namespace {

// An item's tokens may be millions; nobody reads so many.
constexpr std::size_t kMostShown = 4096;

std::string_view name_of(text::Form form) {
  switch (form) {
    case text::Form::passages: return "passages of text";
    case text::Form::windows: return "windows of tokens";
    case text::Form::texts: return "texts";
    case text::Form::completions: return "prompts with completions";
    case text::Form::conversations: return "conversations";
  }
  return "";
}

// Line feeds and tabulators stay: who shows them knows how.
std::string shown(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t valid = utf8::valid_bytes(bytes.substr(at));
    for (const char c : bytes.substr(at, valid)) {
      const auto byte = static_cast<unsigned char>(c);
      const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
      text += control ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    at += valid;
    if (at < bytes.size()) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[at++]));
    }
  }
  return text;
}

struct Vocabulary {
  files::ModelTokenizer tokenizer;
  std::int64_t size = 0;
};

Vocabulary vocabulary_of(io::FileSystem& files, const CheckOptions& options) {
  if (options.model.empty()) {
    if (options.tokenizer.empty()) {
      throw ConfigError(
          "--model: give the model that is to be trained; or give --tokenizer, a folder with "
          "tokenizer.json, or bytes");
    }
    files::ModelTokenizer tokenizer = files::load_tokenizer(files, {}, options.tokenizer);
    const std::int64_t size = tokenizer.tokenizer().vocabulary();
    return {std::move(tokenizer), size};
  }
  const files::ModelSource source = files::find_model(files, options.model);
  return {files::find_tokenizer(files, source, options.tokenizer), source.config.vocabulary};
}

// One item after the other, in the order of the files.
class Check {
 public:
  Check(const CheckOptions& options, CheckObserver& observer, std::stop_token stop)
      : options_(options),
        observer_(observer),
        stop_(std::move(stop)),
        vocabulary_(vocabulary_of(files_, options)),
        tokenizer_(vocabulary_.tokenizer.tokenizer()),
        data_(files_, {options.data.begin(), options.data.end()}, encoding(), data_options()) {}

  CheckSummary run() {
    for (const text::SkippedFile& skipped : data_.skipped()) {
      auto& list = skipped.bad ? summary_.broken : summary_.left_out;
      list.push_back(fmt::format("{} ({})", skipped.path.string(), skipped.reason));
    }
    find_packing();
    const int threads = engine::check_threads(options_.threads);
    text::ReadAhead ahead(data_, text::file_order(data_),
                          {.items = 256,
                           .tokens = std::int64_t{1} << 22,
                           .workers = threads > 0 ? threads : usable_cpus()});
    for (std::int64_t at = 0; const auto visited = ahead.next(); ++at) {
      add(at, visited->item);
      observer_.progress(at + 1, data_.items());
      io::check_stop(stop_);
    }
    return std::move(summary_);
  }

 private:
  text::Encoding encoding() const {
    return {.tokenizer = &tokenizer_,
            .vocabulary = static_cast<std::int32_t>(vocabulary_.size),
            .loss_on_all = options_.loss == LossOn::all,
            .chat = engine::chat_renderer(vocabulary_.tokenizer)};
  }

  text::DataOptions data_options() {
    if (options_.sequence < 1) {
      throw ConfigError(fmt::format("--sequence {}: expected at least 1", options_.sequence));
    }
    return {.passage_bytes = kMiB,
            .window_tokens = options_.sequence,
            .skip_bad = true,
            .keep_bad_files = true,
            .columns = {.text = options_.text_column, .messages = options_.messages_column},
            .not_data = {},
            .unpack_in = engine::folder_to_unpack_in(""),
            .progress = [this](const std::filesystem::path& file, Bytes done, Bytes total) {
              io::check_stop(stop_);
              const auto now = std::chrono::steady_clock::now();
              if (now < next_note_) return;
              next_note_ = now + std::chrono::seconds(5);
              observer_.note(fmt::format("Looking through {}: {} of {}", file.string(),
                                         format_bytes(done), format_bytes(total)));
            }};
  }

  // What training would refuse is found here, too.
  void find_packing() {
    TrainOptions as_training;
    as_training.packing = options_.packing;
    try {
      packing_ = engine::packing_of(data_, as_training);
      summary_.packing = text::name_of(*packing_);
    } catch (const ConfigError& error) {
      summary_.broken.push_back(error.what());
    }
  }

  void add(std::int64_t at, const text::Item& item) {
    const text::ItemFile& file = data_.file_of(at);
    if (file_ != &file) {
      file_ = &file;
      first_of_file_ = at;
      summary_.files.push_back(
          {.path = file.file().path().string(), .items_are = std::string(name_of(file.form()))});
    }
    CheckedFile& counted = summary_.files.back();
    if (!item.problem.empty()) {
      ++counted.bad_items;
      ++summary_.bad_items;
      observer_.bad_item(item.problem);
      return;
    }
    if (item.tokens.empty()) return;
    ++counted.items;
    ++summary_.items;
    const auto tokens = static_cast<std::int64_t>(item.tokens.size());
    const std::int64_t learned = std::ranges::count_if(item.tokens, [](auto t) { return t >= 0; });
    counted.tokens += tokens;
    summary_.tokens += tokens;
    counted.learned_tokens += learned;
    summary_.learned_tokens += learned;
    const std::int64_t in_file = at - first_of_file_;
    for (std::size_t part = 0; part <= item.part_begins.size(); ++part) {
      const std::size_t begin = part == 0 ? 0 : item.part_begins[part - 1];
      const std::size_t end =
          part < item.part_begins.size() ? item.part_begins[part] : item.tokens.size();
      measure(static_cast<std::int64_t>(end - begin), file, in_file);
    }
    if (shown_[file.form()]++ < options_.examples) show(item, file.place(in_file));
  }

  void measure(std::int64_t tokens, const text::ItemFile& file, std::int64_t item) {
    if (tokens > summary_.longest) {
      summary_.longest = tokens;
      summary_.longest_where = file.place(item);
    }
    // The last token predicts nothing, so it needs no place in a row.
    if (packing_ == text::Packing::stream || tokens - 1 <= options_.sequence) return;
    ++summary_.cut_items;
    summary_.cut_tokens += tokens - 1 - options_.sequence;
  }

  void show(const text::Item& item, std::string where) {
    CheckedExample example{.where = std::move(where), .tokens = {}};
    for (std::size_t i = 0; i < std::min(item.tokens.size(), kMostShown); ++i) {
      const std::int32_t id = text::id_of(item.tokens[i]);
      const bool begins = std::ranges::binary_search(item.part_begins, i);
      // Only what stands first may lose the space that some tokenizers put there.
      const bool first = i == 0 || begins;
      example.tokens.push_back(
          {.id = id,
           .learned = item.tokens[i] >= 0,
           .begins_another = begins,
           .text = shown(first ? tokenizer_.decode({&id, 1}) : tokenizer_.decode_next({&id, 1}))});
    }
    summary_.examples.push_back(std::move(example));
  }

  const CheckOptions& options_;
  CheckObserver& observer_;
  std::stop_token stop_;
  io::PosixFileSystem files_;
  Vocabulary vocabulary_;
  const text::Tokenizer& tokenizer_;
  std::chrono::steady_clock::time_point next_note_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
  text::DataSet data_;
  std::optional<text::Packing> packing_;
  CheckSummary summary_;
  const text::ItemFile* file_ = nullptr;
  std::int64_t first_of_file_ = 0;
  std::map<text::Form, int> shown_;
};

}  // namespace

CheckSummary check(const CheckOptions& options, CheckObserver& observer, std::stop_token stop) {
  return Check(options, observer, std::move(stop)).run();
}

}  // namespace ebb
