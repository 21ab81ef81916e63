// A tokenizer's files.
#include <fmt/ranges.h>

#include "base/function_ref.h"
#include "base/in_quotes.h"
#include "base/sorted_json.h"
#include "ebb/error.h"
#include "io/text_file.h"
#include "measure/inspect/report.h"
#include "text/tokenizer_folder.h"

namespace ebb::measure {
namespace {

// Several times the largest tokenizer.json there is; beyond it a file is something else.
constexpr Bytes kMaxTokenizerBytes = 256 * kMiB;
// Words, a mark and digits: where tokenizers differ most.
constexpr std::string_view kSample = "Hello, world! 1234";

// "BPE", "ByteLevel", "Sequence of Split, ByteLevel"; nothing where there is none.
std::string type_of(const SortedJson& part) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) return "none";
  std::string type = short_text(part["type"].get<std::string>());
  for (const char* list : {"pretokenizers", "normalizers", "decoders", "processors"}) {
    if (!part.contains(list) || !part[list].is_array()) continue;
    std::vector<std::string> inner;
    for (const SortedJson& entry : part[list]) inner.push_back(type_of(entry));
    return fmt::format("{} of {}", type, fmt::join(inner, ", "));
  }
  return type;
}

// What the file says, believed in nothing: any field may be missing or of another type.
void add_file(Report& report, const SortedJson& root, Json& json) {
  const SortedJson none = SortedJson::object();
  const SortedJson& model = root.contains("model") ? root["model"] : none;
  const auto count = [&](const char* key) {
    return model.is_object() && model.contains(key) ? model[key].size() : 0;
  };
  report.line("Tokenizer: {}, {} entries in the vocabulary, {} merges", type_of(model),
              count("vocab"), count("merges"));
  json["type"] = type_of(model);
  json["vocabulary"] = count("vocab");
  json["merges"] = count("merges");
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder"}) {
    const std::string type = type_of(root.contains(part) ? root[part] : none);
    report.line("  {}: {}", part, type);
    json[part] = type;
  }
  std::vector<std::string> special;
  const SortedJson added = root.value("added_tokens", SortedJson::array());
  for (const SortedJson& token : added) {
    if (!token.is_object() || !token.value("content", SortedJson()).is_string()) continue;
    special.push_back(token["content"].get<std::string>());
  }
  json["added_tokens"] = special;
  std::string shown;
  for (std::size_t i = 0; i < special.size() && i < 12; ++i) shown += " " + short_text(special[i]);
  report.line("  {} added tokens:{}{}", special.size(), shown, special.size() > 12 ? " ..." : "");
}

void add_use(Report& report, const text::TokenizerFolder& loaded, Json& json) {
  const text::Tokenizer& tokenizer = *loaded.tokenizer;
  const std::vector<std::int32_t> ids = tokenizer.encode(kSample);
  report.line("  ids below {}, end of text {}, before a text [{}]", tokenizer.vocabulary(),
              tokenizer.end_of_text(), fmt::join(tokenizer.prefix(), ", "));
  report.line("  '{}' is [{}]", kSample, fmt::join(ids, ", "));
  report.line("  chat template: {}", loaded.chat ? "yes" : "no");
  json["ids"] = tokenizer.vocabulary();
  json["end_of_text"] = tokenizer.end_of_text();
  json["prefix"] = tokenizer.prefix();
  json["sample"] = {{"text", kSample}, {"ids", ids}};
  json["chat_template"] = loaded.chat.has_value();
  json["files"] = loaded.files;
}

// The text of a tokenizer.json, then what Ebb makes of it.
void describe(Report& report, std::string_view text, const std::filesystem::path& path,
              FunctionRef<text::TokenizerFolder()> load) {
  if (!report.json.contains("kind")) report.json["kind"] = "tokenizer";
  Json& json = report.json["tokenizer"];
  json = Json::object();
  const SortedJson root = parse_sorted_json(text, in_quotes(path.string()));
  if (!root.is_object()) throw FormatError(path.string() + ": expected a JSON object");
  add_file(report, root, json);
  try {
    // What the file says is told even where Ebb cannot use it.
    add_use(report, load(), json);
  } catch (const Error& error) {
    report.line("  Ebb cannot use this tokenizer: {}", error.what());
    json["obstacle"] = error.what();
  }
}

}  // namespace

void describe_tokenizer(Report& report, io::FileSystem& files,
                        const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / text::kTokenizerFile;
  describe(report, io::read_text(files, path, kMaxTokenizerBytes), path,
           [&] { return text::load_tokenizer(files, folder); });
}

void describe_tokenizer(Report& report, const text::TokenizerTexts& texts,
                        const std::filesystem::path& where) {
  describe(report, texts.at(text::kTokenizerFile), where,
           [&] { return text::make_tokenizer(texts, where); });
}

}  // namespace ebb::measure
