// What is in GGUF files.
#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "measure/inspect/report.h"

namespace ebb::measure {
namespace {

using files::GgufPart;
using files::GgufTensor;

std::string shown(const files::GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return short_text(*text);
  if (const auto* list = std::get_if<files::GgufList>(&value)) {
    const bool texts = list->type == files::GgufValueType::text;
    return fmt::format("a list of {} {}", list->count, texts ? "texts" : "numbers");
  }
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  return fmt::format("{}", std::get<std::int64_t>(value));
}

void add_part(Report& report, const GgufPart& part) {
  const std::string name = part.file->path().filename().string();
  std::map<std::string_view, int> counts;
  Bytes bytes = 0;
  for (const GgufTensor& tensor : part.header.tensors) {
    ++counts[name_of(tensor.type)];
    bytes += tensor.bytes;
  }
  std::vector<std::string> words;
  Json json{{"file", name},
            {"version", part.header.version},
            {"tensors", part.header.tensors.size()},
            {"bytes", bytes}};
  for (const auto& [type, count] : counts) {
    words.push_back(fmt::format("{} {}", count, type));
    json["types"][std::string(type)] = count;
  }
  report.line("{}: GGUF version {}, {} tensors ({}), {}", short_text(name), part.header.version,
              part.header.tensors.size(), fmt::join(words, ", "), format_bytes(bytes));
  for (const auto& [key, value] : part.header.values) {
    report.line("  {} = {}", short_text(key), shown(value));
    json["keys"][key] = shown(value);
  }
  report.json["files"].push_back(std::move(json));
}

void add_tensors(Report& report, const GgufPart& part) {
  std::size_t width = 0;
  for (const GgufTensor& tensor : part.header.tensors) {
    width = std::max(width, std::min<std::size_t>(tensor.name.size(), 100));
  }
  for (const GgufTensor& tensor : part.header.tensors) {
    report.line("  {:<{}}  {:<5} {:>10}  [{}]", short_text(tensor.name), width,
                name_of(tensor.type), format_bytes(tensor.bytes), fmt::join(tensor.shape, ", "));
    report.json["tensors"].push_back({{"name", tensor.name},
                                      {"file", part.file->path().filename().string()},
                                      {"type", name_of(tensor.type)},
                                      {"shape", tensor.shape},
                                      {"bytes", tensor.bytes}});
  }
}

}  // namespace

void describe_gguf_content(Report& report, const files::GgufFiles& gguf) {
  for (const GgufPart& part : gguf.parts()) {
    add_part(report, part);
    add_tensors(report, part);
  }
}

}  // namespace ebb::measure
