#include "files/model/gguf_tokenizer_keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/list.h"
#include "base/sorted_json.h"
#include "base/to_size.h"
#include "base/utf8.h"
#include "ebb/error.h"
#include "files/model/generation_config.h"
#include "files/model/gguf_splits.h"
#include "files/model/gguf_tokenizer.h"
#include "io/text_file.h"
#include "text/tokenizer_folder.h"

namespace ebb::files {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// What a tokenizer.json says, taken apart.
class Writer {
 public:
  Writer(io::FileSystem& files, const ModelTokenizer& tokenizer, const ModelSource& source,
         GgufKeys& keys, std::vector<std::string>& warnings)
      : files_(files),
        tokenizer_(tokenizer),
        source_(source),
        keys_(keys),
        warnings_(warnings),
        path_(tokenizer.folder / text::kTokenizerFile),
        json_(parse_sorted_json(io::read_text(files, path_, text::kTokenizerBytes),
                                "'" + path_.string() + "'")),
        model_(json_.at("model")) {}

  void add() {
    check_model();
    read_tokens();
    const bool pieces = model_.value("byte_fallback", false);
    pieces ? add_pieces() : add_byte_level();
    keys_.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens_));
    if (pieces) keys_.add("tokenizer.ggml.scores", std::span<const float>(scores_));
    keys_.add("tokenizer.ggml.token_type", std::span<const std::int32_t>(types_));
    if (!pieces) keys_.add("tokenizer.ggml.merges", std::span<const std::string>(merges_));
    add_special_ids();
    if (const auto chat = text::read_chat_template(files_, tokenizer_.folder)) {
      keys_.add("tokenizer.chat_template", *chat);
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError(
        fmt::format("'{}': {}, which a GGUF file has no word for; give --tokenizer none to write "
                    "the model without a tokenizer, or another one with --tokenizer FOLDER",
                    path_.string(), what));
  }

  // Null, an empty text and false say nothing.
  static bool says(const SortedJson& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && !found->is_null() && *found != "" && *found != false && *found != 0;
  }

  void check_model() const {
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      if (says(model_, key)) refuse(fmt::format("its model has {} {}", key, model_[key].dump()));
    }
  }

  void read_tokens() {
    const std::int64_t count = source_.config.vocabulary;
    tokens_.resize(count);
    types_.assign(count, kGgufUnusedToken);
    for (const auto& [token, id] : model_.at("vocab").items()) {
      const auto at = id.get<std::int64_t>();  // the tokenizer was loaded: ids are in range
      tokens_[at] = token;
      types_[at] = kGgufNormalToken;
    }
    const std::string unknown = model_.contains("unk_token") && model_["unk_token"].is_string()
                                    ? model_["unk_token"].get<std::string>()
                                    : std::string();
    for (const SortedJson& added : json_.value("added_tokens", SortedJson::array())) {
      const auto at = added.at("id").get<std::int64_t>();
      const auto content = added.at("content").get<std::string>();
      tokens_[at] = content;
      const bool special = added.value("special", false);
      types_[at] = special ? kGgufControlToken : kGgufUserToken;
      if (content == unknown) types_[at] = kGgufUnknownToken;
      for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
        if (says(added, flag)) {
          warnings_.push_back(fmt::format("token {} has {}, which a GGUF file does not say",
                                          in_quotes(content), flag));
        }
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (tokens_[i].empty()) tokens_[i] = fmt::format("[PAD{}]", i);
    }
  }

  // Both ways to write one.
  static std::pair<std::string, std::string> halves(const SortedJson& merge) {
    if (!merge.is_string()) return {merge.at(0), merge.at(1)};
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    return {text.substr(0, space), text.substr(space + 1)};
  }

  void add_byte_level() {
    const std::string_view name = split_name();
    for (const SortedJson& merge : model_.at("merges")) {
      const auto [left, right] = halves(merge);
      merges_.push_back(fmt::format("{} {}", left, right));
    }
    keys_.add("tokenizer.ggml.model", "gpt2");
    keys_.add("tokenizer.ggml.pre", name);
  }

  std::string_view split_name() const {
    const std::vector<SortedJson> normalizers = steps("normalizer", "normalizers");
    GgufSplit split{.whole_words = says(model_, "ignore_merges")};
    if (normalizers.size() > 1 || (normalizers.size() == 1 && normalizers[0]["type"] != "NFC")) {
      refuse(fmt::format("its normalizer is {}", shortened(json_["normalizer"])));
    }
    split.nfc = !normalizers.empty();
    const std::vector<SortedJson> cuts = steps("pre_tokenizer", "pretokenizers");
    const auto unknown = [&] {
      refuse(fmt::format("it splits texts by {}", shortened(json_["pre_tokenizer"])));
    };
    std::string pattern;
    if (cuts.empty() || cuts.size() > 2 || cuts.back().value("type", "") != "ByteLevel" ||
        cuts.back().value("add_prefix_space", true)) {
      unknown();
    }
    const bool own = !cuts.back().value("use_regex", true);
    if (cuts.size() == 2 && cuts[0]["type"] == "Digits" && !own) {
      split.digits = cuts[0].value("individual_digits", false);
      if (!split.digits) unknown();
    } else if (cuts.size() == 2 && cuts[0]["type"] == "Split" && own) {
      const SortedJson& cut = cuts[0];
      if (cut.value("behavior", "") != "Isolated" || says(cut, "invert") ||
          !cut["pattern"].contains("Regex")) {
        unknown();
      }
      pattern = cut["pattern"]["Regex"].get<std::string>();
      split.pattern = pattern;
    } else if (cuts.size() != 1 || own) {
      unknown();
    }
    const auto name = gguf_split_name(split);
    if (!name) {
      refuse(fmt::format("it splits texts by {}{}{}", shortened(json_["pre_tokenizer"]),
                         split.nfc ? " after NFC" : "",
                         split.whole_words ? ", with ignore_merges" : ""));
    }
    return *name;
  }

  std::vector<SortedJson> steps(const char* key, const char* of) const {
    std::vector<SortedJson> found;
    const auto part = json_.find(key);
    if (part == json_.end() || part->is_null()) return found;
    if (part->value("type", "") != "Sequence") return {*part};
    for (const SortedJson& step : part->at(of)) found.push_back(step);
    return found;
  }

  static std::string shortened(const SortedJson& json) {
    const std::string text = json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
    return in_quotes(text.substr(0, 200));
  }

  void add_pieces() {
    keys_.add("tokenizer.ggml.model", "llama");
    keys_.add("tokenizer.ggml.pre", "default");
    keys_.add("tokenizer.ggml.add_space_prefix", adds_space());
    for (std::int64_t i = 0; i < tokens_.count(); ++i) {
      const std::string& token = tokens_[i];
      const bool byte = token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
      if (byte && types_[i] == kGgufNormalToken) types_[i] = kGgufByteToken;
    }
    find_scores();
  }

  bool adds_space() {
    const SortedJson replace{
        {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
    const SortedJson prepend{{"type", "Prepend"}, {"prepend", kSpaceMark}};
    const std::vector<SortedJson> normalizers = steps("normalizer", "normalizers");
    const std::vector<SortedJson> cuts = steps("pre_tokenizer", "pretokenizers");
    if (cuts.empty() && normalizers == std::vector{prepend, replace}) return true;
    // Gemma's cuts at spaces, of which there are none by then.
    const bool idle = cuts.empty() || (cuts.size() == 1 && cuts[0].value("type", "") == "Split" &&
                                       cuts[0]["pattern"] == SortedJson{{"String", " "}});
    if (idle && normalizers == std::vector{replace}) return false;
    const bool metaspace =
        normalizers.empty() && cuts.size() == 1 && cuts[0].value("type", "") == "Metaspace" &&
        cuts[0].value("replacement", "") == kSpaceMark && !cuts[0].value("split", true);
    const std::string scheme = metaspace ? cuts[0].value("prepend_scheme", "always") : "";
    if (scheme == "never") return false;
    if (scheme == "always") return true;
    if (scheme == "first") {
      warnings_.emplace_back(
          "behind a special token the folder's tokenizer puts no space before a text, others do "
          "with a GGUF file");
      return true;
    }
    refuse(fmt::format("its pieces are made of a text by {} and {}", shortened(json_["normalizer"]),
                       shortened(json_["pre_tokenizer"])));
  }

  // The score of a piece is the rank of its merges. Pieces with scores are joined in every way
  // that makes another piece, so merges must be all of these, and those of a piece stand together.
  void find_scores() {
    struct Ranks {
      std::int64_t first = 0, last = 0, count = 0;
    };
    std::unordered_map<std::string, Ranks> ranks;
    std::int64_t rank = 0;
    for (const SortedJson& merge : model_.at("merges")) {
      const auto [left, right] = halves(merge);
      const auto [entry, fresh] = ranks.try_emplace(left + right, Ranks{rank, rank, 0});
      entry->second.last = rank++;
      ++entry->second.count;
    }
    // Scores are fp32, which holds these exactly.
    if (rank >= std::int64_t{1} << 24) refuse("it has too many merges for scores");
    const auto is_piece = [&](std::string_view part) {
      const auto found = model_["vocab"].find(std::string(part));
      if (found == model_["vocab"].end()) return false;
      const std::int32_t type = types_[found->get<std::int64_t>()];
      return type == kGgufNormalToken || type == kGgufUserToken;
    };
    scores_.assign(tokens_.count(), -static_cast<float>(rank) - 1);
    for (std::int64_t i = 0; i < tokens_.count(); ++i) {
      const std::string& piece = tokens_[i];
      const auto found = ranks.find(piece);
      if (found != ranks.end()) scores_[i] = -static_cast<float>(found->second.first);
      if (types_[i] != kGgufNormalToken) continue;
      std::int64_t ways = 0;
      for (std::size_t cut = 1; cut < piece.size(); ++cut) {
        if (!utf8::begins_character(piece[cut])) continue;
        const std::string_view whole = piece;
        if (is_piece(whole.substr(0, cut)) && is_piece(whole.substr(cut))) ++ways;
      }
      if (ways != (found == ranks.end() ? 0 : found->second.count)) {
        refuse(fmt::format("its merges are not all ways to join two tokens to a third (such as {})",
                           in_quotes(piece)));
      }
    }
    for (const auto& [piece, of] : ranks) {
      if (of.last - of.first + 1 != of.count) {
        refuse(
            fmt::format("its merges have no order that scores could give ({} has ranks {} to {})",
                        in_quotes(piece), of.first, of.last));
      }
    }
  }

  std::optional<std::int32_t> id_of_special(const char* name) const {
    const auto found = tokenizer_.parts.special_tokens.find(name);
    if (found == tokenizer_.parts.special_tokens.end()) return std::nullopt;
    return tokenizer_.tokenizer().id_of(found->second);
  }

  void add_id(std::string_view name, std::optional<std::int32_t> id) {
    if (!id) return;
    keys_.add(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(*id));
  }

  // All ids that end a text: those of config.json and of generation_config.json.
  std::vector<std::int32_t> stops() const {
    std::vector<std::int32_t> all;
    const auto add = [&](const std::vector<std::int32_t>& ids) {
      for (const std::int32_t id : ids) {
        if (std::ranges::find(all, id) == all.end()) all.push_back(id);
      }
    };
    if (const auto id = id_of_special("eos_token")) add({*id});
    if (source_.folder.empty()) return all;
    add(read_stops(source_.stored_config, (source_.folder / kConfigName).string()));
    if (const auto stored = read_generation_config(files_, source_.folder)) add(stored->stops);
    return all;
  }

  void add_special_ids() {
    const std::vector<std::int32_t> prefix = tokenizer_.tokenizer().prefix();
    const std::vector<std::int32_t> suffix = tokenizer_.tokenizer().suffix();
    if (prefix.size() > 1 || suffix.size() > 1) {
      refuse("it puts several tokens before or behind a text");
    }
    std::vector<std::int32_t> ends = stops();
    if (!suffix.empty()) {
      std::erase(ends, suffix.front());
      ends.insert(ends.begin(), suffix.front());
    }
    std::erase_if(ends, [&](std::int32_t id) { return id >= source_.config.vocabulary; });
    add_id("bos", prefix.empty() ? id_of_special("bos_token") : std::optional(prefix.front()));
    constexpr std::array names = {"eos", "eot", "eom"};
    for (std::size_t i = 0; i < std::min(ends.size(), names.size()); ++i) add_id(names[i], ends[i]);
    if (ends.size() > names.size()) {
      warnings_.push_back(fmt::format("{} tokens end a text, of which a GGUF file names {}",
                                      ends.size(), names.size()));
    }
    std::optional<std::int32_t> unknown = id_of_special("unk_token");
    if (model_.contains("unk_token") && model_["unk_token"].is_string()) {
      unknown = tokenizer_.tokenizer().id_of(model_["unk_token"].get<std::string>());
    }
    add_id("unknown", unknown);
    add_id("padding", id_of_special("pad_token"));
    keys_.add("tokenizer.ggml.add_bos_token", !prefix.empty());
    keys_.add("tokenizer.ggml.add_eos_token", !suffix.empty());
  }

  io::FileSystem& files_;
  const ModelTokenizer& tokenizer_;
  const ModelSource& source_;
  GgufKeys& keys_;
  std::vector<std::string>& warnings_;
  std::filesystem::path path_;
  SortedJson json_;
  const SortedJson& model_;
  List<std::string> tokens_;
  List<std::int32_t> types_;
  List<float> scores_;
  std::vector<std::string> merges_;
};

}  // namespace

void add_tokenizer_keys(io::FileSystem& files, const ModelTokenizer& tokenizer,
                        const ModelSource& source, GgufKeys& keys,
                        std::vector<std::string>& warnings) {
  if (tokenizer.folder.empty()) {
    add_no_tokenizer(keys);
    keys.add(kGgufBytesKey, "bytes");
    return;
  }
  Writer(files, tokenizer, source, keys, warnings).add();
}

void add_no_tokenizer(GgufKeys& keys) { keys.add("tokenizer.ggml.model", "no_vocab"); }

}  // namespace ebb::files
