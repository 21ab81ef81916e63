#include "engine/training_data.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "engine/settings.h"

namespace ebb::engine {
namespace {

std::optional<text::Packing> packing_of(RowPacking packing) {
  switch (packing) {
    case RowPacking::automatic: break;
    case RowPacking::stream: return text::Packing::stream;
    case RowPacking::fit: return text::Packing::fit;
    case RowPacking::none: return text::Packing::none;
  }
  return std::nullopt;
}

// Whether it is time to tell again that something takes long.
class Interval {
 public:
  bool passed() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(5);
    return true;
  }

 private:
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

std::vector<std::filesystem::path> paths(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

text::DataOptions data_options(const TrainOptions& o, const files::ModelTokenizer& tokenizer,
                               const std::function<void(const std::string&)>& note) {
  // About two rows: long enough that most tokens see what stands before them in the text, short
  // enough that the rows of a batch come from many places.
  const Bytes bytes_per_token = tokenizer.folder.empty() ? 1 : 4;
  constexpr Bytes shortest = 512;
  text::DataOptions options;
  options.passage_bytes = std::max(shortest, 2 * o.sequence * bytes_per_token);
  options.window_tokens = o.sequence;
  options.skip_bad = o.on_bad_data == OnBadData::skip;
  options.columns = {.text = o.text_column, .messages = o.messages_column};
  options.unpack_in = folder_to_unpack_in(o.out);
  std::vector<std::string> written = o.outputs;
  written.push_back(o.trace);
  for (const std::string& name : written) {
    if (name.empty()) continue;
    options.not_data.emplace_back(name);
    options.not_data.emplace_back(name + ".partial");  // which a run that was killed may leave
  }
  if (!o.out.empty()) options.not_data.emplace_back(o.out);
  options.progress = [&note, interval = Interval()](const std::filesystem::path& file, Bytes done,
                                                    Bytes total) mutable {
    if (!interval.passed()) return;
    note(fmt::format("Looking through {}: {} of {}", file.string(), format_bytes(done),
                     format_bytes(total)));
  };
  return options;
}

// The list of files is for people, to say which has changed. It is part of every checkpoint, so it
// is left out where it would be megabytes.
constexpr std::size_t kMostListed = 4 << 20;  // bytes

Json to_json(const std::vector<text::FileRecord>& files) {
  Json json = {{"content", text::digest_of(files)}};
  Json list = Json::array();
  std::size_t bytes = 0;
  for (const text::FileRecord& file : files) {
    constexpr std::size_t around = 96;  // its digest, its size and the keys
    bytes += file.name.size() + around;
    if (bytes > kMostListed) return json;
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
  }
  json["files"] = std::move(list);
  return json;
}

}  // namespace

void check_data_flags(const TrainOptions& o) {
  const auto require = [](bool good, const std::string& text) {
    if (!good) throw ConfigError(text);
  };
  require(!o.eval_share || (*o.eval_share > 0 && *o.eval_share < 1),
          fmt::format("--eval-share {}: expected a share of the data between 0 and 1, such as 0.01",
                      o.eval_share.value_or(0)));
  require(!o.eval_share || o.eval_data.empty(),
          "--eval-share and --eval-data: give one of them; both say what to validate on");
  require(o.eval_batches >= 1,
          fmt::format("--eval-batches {}: expected at least 1", o.eval_batches));
  require(o.eval_every >= 0,
          fmt::format("--eval-every {}: expected 0 (never) or more steps", o.eval_every));
  require(o.eval_every == 0 || o.eval_share || !o.eval_data.empty(),
          fmt::format("--eval-every {}: there is nothing to validate on; add --eval-data FILE, or "
                      "--eval-share 0.01 to hold out a part of --data",
                      o.eval_every));
}

// Such text may be larger than memory, which /tmp may be: so it goes where the run's own files go,
// which are large, too, or where the user says such files go.
std::filesystem::path folder_to_unpack_in(const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (std::getenv("TMPDIR") != nullptr) return {};
  for (fs::path folder = out.empty() ? fs::path() : fs::absolute(out, error);
       folder.has_parent_path(); folder = folder.parent_path()) {
    if (fs::is_directory(folder, error)) return folder;
    if (folder == folder.parent_path()) break;
  }
  const fs::path large = "/var/tmp";
  return fs::is_directory(large, error) ? large : fs::path();
}

text::ChatRenderer chat_renderer(const files::ModelTokenizer& tokenizer) {
  if (!tokenizer.parts.chat) return {};
  return [&parts = tokenizer.parts](const Json& messages, bool answer_next) {
    return parts.chat->render(messages, parts.special_tokens, answer_next);
  };
}

text::DataSet open_data(io::FileSystem& files, const std::vector<std::string>& names,
                        const TrainOptions& options, const files::ModelTokenizer& tokenizer,
                        std::int64_t vocabulary,
                        const std::function<void(const std::string&)>& note) {
  return text::DataSet(files, paths(names),
                       {.tokenizer = &tokenizer.tokenizer(),
                        .vocabulary = static_cast<std::int32_t>(vocabulary),
                        .loss_on_all = options.loss == LossOn::all,
                        .chat = chat_renderer(tokenizer)},
                       data_options(options, tokenizer, note));
}

text::Packing packing_of(const text::DataSet& data, const TrainOptions& options) {
  return choose_packing(data, packing_of(options.packing));
}

TrainingData::TrainingData(io::FileSystem& files, const TrainOptions& options,
                           const files::ModelTokenizer& tokenizer, std::int64_t vocabulary,
                           int threads, const std::function<void(const std::string&)>& note)
    : options_(options),
      data_(open_data(files, options.data, options, tokenizer, vocabulary, note)),
      rules_{.shape = {.sequence = options.sequence, .rows = options.micro_batch},
             .packing = packing_of(data_, options),
             .seed = options.seed,
             .held_out_share = options.eval_share.value_or(0)},
      // A few threads make tokens faster than any model takes them.
      bounds_(text::bounds_for(rules_.shape, kBatchesAhead * options.accumulate,
                               readers(threads) - 1)) {
  for (const text::SkippedFile& skipped : data_.skipped()) {
    note(fmt::format("Not trained on: {} ({})", skipped.path.string(), skipped.reason));
  }
  if (data_.unpacked_bytes() > 0) {
    note(fmt::format("Compressed data is unpacked in {}, {} that are gone with the run",
                     data_.unpacked_in().string(), format_bytes(data_.unpacked_bytes())));
  }
  check_length(data_, rules_.shape, rules_.packing);
  if (!options.eval_data.empty()) {
    evaluation_.emplace(files, paths(options.eval_data), data_.encoding(),
                        data_options(options, tokenizer, note));
  }
  // What they refuse is refused before anything else is done.
  text::shuffled_order(data_, rules_.seed, rules_.held_out_share, {});
  check_validation(note);
  digests_ = std::make_unique<text::FileDigests>(data_);
  if (evaluation_) evaluation_digests_ = std::make_unique<text::FileDigests>(*evaluation_);
}

void TrainingData::check_validation(const std::function<void(const std::string&)>& note) const {
  const std::unique_ptr<text::ValidationBatches> batches = validation();
  if (batches == nullptr) return;
  Interval interval;
  std::int64_t loss_tokens = 0;
  for (std::int64_t made = 1; const auto batch = batches->next(); ++made) {
    loss_tokens += batch->loss_tokens;
    if (interval.passed()) note(fmt::format("Reading the data to validate on: {} batches", made));
  }
  const text::LeftOut& left_out = batches->left_out();
  const std::string skipped =
      left_out.bad_items == 0
          ? std::string()
          : fmt::format("{} bad item{} of the data to validate on skipped, the first: {}",
                        left_out.bad_items, left_out.bad_items == 1 ? "" : "s",
                        left_out.first_problem);
  if (loss_tokens == 0) {
    throw ConfigError(fmt::format(
        "none of the tokens to validate on counts for the loss{}; are the prompts longer than "
        "--sequence {}? Give a larger --sequence, or other data to validate on",
        skipped.empty() ? "" : " (" + skipped + ")", options_.sequence));
  }
  if (!skipped.empty()) note(skipped);
}

std::optional<TrainingData::Contents> TrainingData::contents(
    const std::function<void(const std::string&)>& note, const std::function<bool()>& go_on) {
  Interval interval;
  const auto told = [&](Bytes done, Bytes total) {
    if (interval.passed()) {
      note(
          fmt::format("Reading all of the data once, to know later whether it is the same: {} of "
                      "{}",
                      format_bytes(done), format_bytes(total)));
    }
    return go_on();
  };
  const text::FileDigests::Result* training = digests_->finish(told);
  if (training == nullptr) return std::nullopt;
  Contents contents{.json = {{"training", to_json(training->files)}, {"validation", Json()}},
                    .problem = training->problem};
  if (!evaluation_digests_) return contents;
  const text::FileDigests::Result* validation = evaluation_digests_->finish(told);
  if (validation == nullptr) return std::nullopt;
  contents.json["validation"] = to_json(validation->files);
  if (contents.problem.empty()) contents.problem = validation->problem;
  return contents;
}

Json TrainingData::contents_so_far() const {
  return {{"training", to_json(data_.records())},
          {"validation", evaluation_ ? to_json(evaluation_->records()) : Json()}};
}

text::DataPosition TrainingData::position_after_change(text::DataPosition position) const {
  if (position.item >= data_.items()) return {.epoch = position.epoch + 1, .item = 0, .token = 0};
  return {.epoch = position.epoch, .item = position.item, .token = 0};
}

int TrainingData::readers(int threads) { return std::clamp(threads / 4, 1, 8) + 1; }

Json TrainingData::key() const {
  Json key = {{"tokenizer", data_.encoding().tokenizer->digest()},
              {"packing", name_of(rules_.packing)},
              {"loss", to_word(options_.loss)},
              {"held_out", rules_.held_out_share}};
  // Checkpoints of before know nothing of them.
  if (!options_.text_column.empty()) key["text_column"] = options_.text_column;
  if (!options_.messages_column.empty()) key["messages_column"] = options_.messages_column;
  return key;
}

Bytes TrainingData::memory_bytes() const {
  text::AheadBounds bounds = bounds_;
  bounds.tokens = 0;
  Bytes bytes = data_.memory_bytes() + text::ReadAhead::memory_bytes(data_, bounds) +
                bounds_.workers * data_.encoding().tokenizer->encoding_bytes();
  bytes += digests_->memory_bytes();
  if (evaluation_) {
    bytes += evaluation_->memory_bytes() + text::reading_bytes(*evaluation_) +
             evaluation_digests_->memory_bytes();
  }
  if (evaluation_ || options_.eval_share) bytes += rules_.shape.tokens() * 8;
  return bytes;
}

text::Prefetcher TrainingData::batches(text::DataPosition start) const {
  return text::Prefetcher(data_, rules_, start, bounds_);
}

std::unique_ptr<text::ValidationBatches> TrainingData::validation() const {
  if (!evaluation_ && !options_.eval_share) return nullptr;
  const text::DataSet& from = evaluation_ ? *evaluation_ : data_;
  return std::make_unique<text::ValidationBatches>(from, rules_.shape, packing_of(from, options_),
                                                   options_.eval_share, options_.eval_batches);
}

}  // namespace ebb::engine
