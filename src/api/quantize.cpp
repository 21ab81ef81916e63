#include "ebb/quantize.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/machine.h"
#include "base/seconds_since.h"
#include "ebb/error.h"
#include "engine/settings.h"
#include "files/gguf/gguf_files.h"
#include "files/model/gguf_model_writer.h"
#include "io/posix_file_system.h"
#include "io/text_file.h"

namespace ebb {
namespace {

// Asked before the work: publishing replaces what lies under the name.
void check_out(io::FileSystem& files, const std::string& out, const files::ModelSource& source) {
  const auto refuse = [&](std::string_view what) {
    throw ConfigError(fmt::format("--out {}: {}; give another name", out, what));
  };
  if (!files.exists(out)) {
    const std::filesystem::path folder = io::parent_of(out);
    if (!files.is_directory(folder)) {
      refuse(fmt::format("there is no folder '{}'", folder.string()));
    }
    return;
  }
  if (files.is_directory(out)) refuse("it is a folder");
  io::check_replaceable(files, out);
  const auto file = files.open(out);
  std::string head(static_cast<std::size_t>(std::min<Bytes>(file->size(), 4)), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  if (!files::is_gguf(head)) refuse("there is a file that is no GGUF file");
  if (source.file.empty()) return;
  const files::GgufFiles model(files, source.file);
  for (const files::GgufPart& part : model.parts()) {
    std::error_code unknown;
    if (std::filesystem::equivalent(part.file->path(), out, unknown)) {
      refuse("it is the model that is read");
    }
  }
}

}  // namespace

std::vector<std::string_view> quantize_types() {
  std::vector<std::string_view> names;
  std::ranges::transform(files::gguf_file_types(), std::back_inserter(names),
                         &files::GgufFileType::name);
  return names;
}

QuantizeSummary quantize(const QuantizeOptions& options,
                         const std::function<void(const QuantizeProgress&)>& progress) {
  io::PosixFileSystem files;
  if (options.out.empty()) throw ConfigError("--out: the file to make is missing");
  const files::GgufFileType& type = files::gguf_file_type(options.type, "--type");
  const int threads = engine::check_threads(options.threads);
  const files::ModelSource source = files::find_model(files, options.model);
  check_out(files, options.out, source);
  if (options.verify) files::verify_model(files, source);
  // A GGUF file's own tokenizer goes along as it is, known to Ebb or not.
  std::optional<files::ModelTokenizer> tokenizer;
  const bool none = options.tokenizer == "none";
  if (!none && (source.file.empty() || !options.tokenizer.empty())) {
    tokenizer = files::find_tokenizer(files, source, options.tokenizer);
  }

  const auto start = std::chrono::steady_clock::now();
  double reported = 0;
  ThreadPool pool(threads > 0 ? threads : usable_cpus());
  const files::WrittenGguf written = files::write_gguf_model(
      files, pool, source,
      {.type = &type,
       .seed = options.seed,
       .tokenizer = tokenizer ? &*tokenizer : nullptr,
       .without_tokenizer = none},
      options.out, [&](std::int64_t done, std::int64_t of) {
        const double elapsed = seconds_since(start);
        if (!progress || (elapsed - reported < kSecondsBetweenReports && done < of)) return;
        reported = elapsed;
        const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
        progress({.parameters = done,
                  .of_parameters = of,
                  .parameters_per_second = rate,
                  .seconds_left = rate > 0 ? static_cast<double>(of - done) / rate : 0});
      });
  QuantizeSummary summary{.bytes = written.bytes,
                          .parameters = written.parameters,
                          .bits_per_parameter = 8 * static_cast<double>(written.bytes) /
                                                static_cast<double>(written.parameters),
                          .types = {},
                          .fallbacks = written.fallbacks,
                          .warnings = written.warnings,
                          .seconds = seconds_since(start)};
  std::vector<std::string> types;
  for (const auto& [name, count] : written.types)
    types.push_back(fmt::format("{} {}", count, name));
  summary.types = fmt::format("{}", fmt::join(types, ", "));
  if (!source.has_weights()) {
    summary.warnings.push_back(
        fmt::format("the weights of {} are random, as nobody has trained them", source.name));
  }
  if (written.requantized) {
    summary.warnings.push_back(
        fmt::format("{} was quantized before, so its weights have lost twice; weights that "
                    "were not would make a better file",
                    source.name));
  }
  if (!source.head_note.empty()) summary.warnings.push_back(source.head_note);
  return summary;
}

}  // namespace ebb
