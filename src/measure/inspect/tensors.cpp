// Safetensors files and their index.
#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "ebb/error.h"
#include "files/weight_files.h"
#include "measure/inspect/report.h"

namespace ebb::measure {
namespace {

using files::SafetensorsReader;
using files::StoredTensor;

// "290 BF16, 1 F32".
std::string types_of(const SafetensorsReader& file, Json& json) {
  std::map<std::string_view, int> counts;
  for (const StoredTensor& tensor : file.tensors()) ++counts[name_of(tensor.type)];
  std::vector<std::string> words;
  for (const auto& [type, count] : counts) {
    words.push_back(fmt::format("{} {}", count, type));
    json["types"][std::string(type)] = count;
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// From the header alone: no tensor is read.
void add_file(Report& report, const SafetensorsReader& file, Json& list) {
  const std::string name = file.path().filename().string();
  Bytes bytes = 0;
  for (const StoredTensor& tensor : file.tensors()) bytes += tensor.bytes;
  Json json{{"file", name}, {"tensors", file.tensors().size()}, {"bytes", bytes}};
  report.line("{}: safetensors, {} tensors ({}), {}", short_text(name), file.tensors().size(),
              types_of(file, json), format_bytes(bytes));
  for (const auto& [key, value] : file.metadata()) {
    report.line("  {} = {}", short_text(key), short_text(value));
    json["metadata"][key] = value;
  }
  list.push_back(std::move(json));
}

void add_tensors(Report& report, const SafetensorsReader& file) {
  std::size_t width = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    width = std::max(width, std::min<std::size_t>(tensor.name.size(), 100));
  }
  for (const StoredTensor& tensor : file.tensors()) {
    report.line("  {:<{}}  {:<5} {:>10}  [{}]", short_text(tensor.name), width,
                name_of(tensor.type), format_bytes(tensor.bytes), fmt::join(tensor.shape, ", "));
    report.json["tensors"].push_back({{"name", tensor.name},
                                      {"file", file.path().filename().string()},
                                      {"type", name_of(tensor.type)},
                                      {"shape", tensor.shape},
                                      {"bytes", tensor.bytes}});
  }
}

}  // namespace

void describe_safetensors(Report& report, io::FileSystem& files,
                          const std::filesystem::path& path) {
  const SafetensorsReader file(files, path);
  report.json["kind"] = "safetensors";
  add_file(report, file, report.json["files"]);
  add_tensors(report, file);
}

void describe_index(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const files::SafetensorsIndex index = files::read_index(files, path);
  report.json["kind"] = "index of a model in several files";
  report.json["tensors"] = index.files.size();
  report.line("{}: {} tensors in {} files", path.filename().string(), index.files.size(),
              index.file_names().size());
  if (index.total_bytes) report.json["total_size"] = *index.total_bytes;
  std::map<std::string_view, int> counts;
  for (const auto& [tensor, file] : index.files) ++counts[file];
  bool complete = true;
  for (const auto& [file, count] : counts) {
    // A download that broke off lacks some files; their names are what people need.
    const bool there = files.exists(io::parent_of(path) / file);
    complete &= there;
    report.line("  {}: {} tensors{}", short_text(file), count,
                there ? "" : " - this file is MISSING: get it, too");
    report.json["files"].push_back({{"file", file}, {"tensors", count}, {"there", there}});
  }
  report.json["complete"] = complete;
}

void describe_weights(Report& report, io::FileSystem& files, const std::filesystem::path& folder) {
  const files::WeightFiles weights(files, folder);
  if (weights.index()) {
    report.line("Weights in {} files, as {} says", weights.files().size(), files::kIndexName);
    if (const auto& total = weights.index()->total_bytes) report.json["total_size"] = *total;
  }
  for (const SafetensorsReader& file : weights.files()) {
    add_file(report, file, report.json["files"]);
    add_tensors(report, file);
  }
}

}  // namespace ebb::measure
