#include "engine/inspect/identify.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/error.h"
#include "io/text_file.h"

namespace ebb::engine {
namespace {

constexpr Bytes kHeadBytes = 8 * kKiB;
// Beyond this a file of JSON is taken for one object a line.
constexpr Bytes kMaxJsonBytes = 100'000'000;

std::string read_head(io::FileSystem& files, const std::filesystem::path& path) {
  const auto file = files.open(path);
  std::string head(static_cast<std::size_t>(std::min(file->size(), kHeadBytes)), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  return head;
}

// The length of a header in front, and the header's first character.
bool looks_like_safetensors(const std::string& head) {
  return head.size() > 8 && head[8] == '{' && head.substr(5, 3) == std::string(3, '\0');
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view found) {
  throw FormatError(fmt::format(
      "{}: {}. Ebb knows: folders of models, runs, checkpoints and texts; .safetensors files and "
      "their index; config.json, generation_config.json, tokenizer.json; a checkpoint's "
      "manifest.json and training.json; JSONL and text files to train on; preset:NAME.",
      path.string(), found));
}

// The root's keys and plain values; what lies deeper is read and forgotten.
nlohmann::json parse_root(const std::string& text) {
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 1;
  };
  return nlohmann::json::parse(text, shallow, false);
}

FileKind identify_object(const nlohmann::json& root, const std::filesystem::path& path) {
  const auto has = [&](const char* key) { return root.contains(key); };
  const nlohmann::json format = root.value("format", nlohmann::json());
  if (has("weight_map")) return FileKind::index;
  if (has("model") && has("added_tokens")) return FileKind::tokenizer;
  if (has("tokenizer_class") || has("chat_template")) return FileKind::tokenizer;
  if (format == "ebb-checkpoint") return FileKind::manifest;
  if (format == "ebb training state") return FileKind::training_state;
  if (has("model_type") || has("architectures")) return FileKind::config;
  if (has("messages") || has("prompt") || has("text")) return FileKind::jsonl;
  if (has("eos_token_id") || has("do_sample") || has("temperature")) {
    return FileKind::generation_config;
  }
  refuse(path, "JSON, but of no kind that Ebb knows");
}

}  // namespace

FileKind identify(io::FileSystem& files, const std::filesystem::path& path) {
  const std::string head = read_head(files, path);
  const std::string suffix = path.extension().string();
  if (suffix == ".safetensors" || looks_like_safetensors(head)) return FileKind::safetensors;
  if (suffix == ".jsonl" || suffix == ".ndjson") return FileKind::jsonl;
  if (head.starts_with("GGUF")) {
    refuse(path, "a GGUF file, which Ebb does not read; bring the model's safetensors files");
  }
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
  const nlohmann::json root = parse_root(io::read_text(files, path, kMaxJsonBytes));
  if (root.is_object()) return identify_object(root, path);
  if (suffix == ".json") refuse(path, root.is_discarded() ? "this is not JSON" : "no JSON object");
  const nlohmann::json line = parse_root(head.substr(0, head.find('\n')));
  return line.is_object() ? FileKind::jsonl : FileKind::text;
}

}  // namespace ebb::engine
