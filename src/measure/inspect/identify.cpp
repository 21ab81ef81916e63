#include "measure/inspect/identify.h"

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/header.h"
#include "io/text_file.h"
#include "text/data/token_file.h"

namespace ebb::measure {
namespace {

// Holds the first line of most JSONL files, and every magic number.
constexpr Bytes kHeadBytes = 8 * kKiB;
// Beyond this a file of JSON is taken for one object a line.
constexpr Bytes kMaxJsonBytes = 100'000'000;

std::string read_head(io::FileSystem& files, const std::filesystem::path& path) {
  const auto file = files.open(path);
  std::string head(to_size(std::min(file->size(), kHeadBytes)), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

// The length of a header in front, and the header's first character.
bool looks_like_safetensors(const std::string& head) {
  return head.size() > 8 && head[8] == '{' && head.substr(5, 3) == std::string(3, '\0');
}

// `found` is what the file is instead.
[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view found) {
  throw FormatError(fmt::format(
      "{}: {}. Ebb knows: folders of models, runs, checkpoints and texts; .gguf and .safetensors "
      "files and their index; config.json, generation_config.json, tokenizer.json; a checkpoint's "
      "manifest.json and training.json; profiles of machines; JSONL, text and token files to train "
      "on; preset:NAME.",
      path.string(), found));
}

// The keys of a JSON object, without building the rest of it: a file may be large.
class RootKeys final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool is_object = false;  // one, and nothing behind it
  std::set<std::string, std::less<>> keys;
  std::string format;

  bool has(std::string_view key) const { return keys.contains(key); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(std::string& value) override {
    if (depth_ == 1 && key_ == "format") format = std::move(value);
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    key_ = std::move(name);
    if (keys.size() < kMostKeys) keys.insert(key_);
    return true;
  }
  bool start_object(std::size_t) override {
    is_object |= depth_ == 0;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    is_object = false;
    return false;
  }

 private:
  // An object of a million keys is none that Ebb knows.
  static constexpr std::size_t kMostKeys = 4096;

  std::int64_t depth_ = 0;
  std::string key_;
};

RootKeys read_root(const std::string& text) {
  RootKeys root;
  nlohmann::json::sax_parse(text, &root);
  return root;
}

// From the most particular keys to those that other kinds may have, too: the order counts.
FileKind identify_object(const RootKeys& root, const std::filesystem::path& path) {
  if (root.has("weight_map")) return FileKind::index;
  if (root.has("model") && root.has("added_tokens")) return FileKind::tokenizer;
  if (root.has("tokenizer_class") || root.has("chat_template")) return FileKind::tokenizer;
  if (root.format == "ebb-checkpoint") return FileKind::manifest;
  if (root.format == "ebb training state") return FileKind::training_state;
  if (root.format == "ebb machine profile") return FileKind::profile;
  if (root.has("model_type") || root.has("architectures")) return FileKind::config;
  if (root.has("messages") || root.has("prompt") || root.has("text")) return FileKind::jsonl;
  if (root.has("eos_token_id") || root.has("do_sample") || root.has("temperature")) {
    return FileKind::generation_config;
  }
  refuse(path, "JSON, but of no kind that Ebb knows");
}

}  // namespace

// Names first where they are unmistakable, then the first bytes; the whole file is read for JSON
// alone.
FileKind identify(io::FileSystem& files, const std::filesystem::path& path) {
  const std::string head = read_head(files, path);
  const std::string suffix = path.extension().string();
  if (suffix == ".safetensors" || looks_like_safetensors(head)) return FileKind::safetensors;
  if (suffix == ".gguf" || files::is_gguf(head)) return FileKind::gguf;
  if (suffix == ".jsonl" || suffix == ".ndjson") return FileKind::jsonl;
  if (text::is_token_file(head)) return FileKind::tokens;
  if (head.starts_with("PK\x03\x04") || head.starts_with("\x80\x02")) {
    refuse(path,
           "a file of PyTorch or an archive, which Ebb does not read; weights can be converted "
           "with transformers: save_pretrained(folder, safe_serialization=True)");
  }
  if (head.empty()) refuse(path, "the file is empty");
  if (head.find('\0') != std::string::npos) refuse(path, "neither JSON nor text");
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  const bool json = suffix == ".json" || (first != std::string::npos && head[first] == '{');
  if (!json) return FileKind::text;
  if (files.open(path)->size() > kMaxJsonBytes) return FileKind::jsonl;
  const RootKeys root = read_root(io::read_text(files, path, kMaxJsonBytes));
  if (root.is_object) return identify_object(root, path);
  if (suffix == ".json") refuse(path, "expected one JSON object");
  return read_root(head.substr(0, head.find('\n'))).is_object ? FileKind::jsonl : FileKind::text;
}

}  // namespace ebb::measure
