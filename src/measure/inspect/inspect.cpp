#include "ebb/inspect.h"

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "io/posix_file_system.h"
#include "measure/inspect/identify.h"
#include "measure/inspect/report.h"
#include "text/tokenizer_folder.h"

namespace ebb {
namespace measure {
namespace {

// A model wins over a run, whose last checkpoint is one, and both over data that lies beside.
void describe_folder(Report& report, io::FileSystem& files, const std::filesystem::path& folder) {
  if (files.exists(folder / "config.json")) return describe_model_folder(report, files, folder);
  if (const auto latest = files::latest_checkpoint(files, folder)) {
    return describe_model_folder(report, files, *latest);
  }
  if (text::has_tokenizer(files, folder)) return describe_tokenizer(report, files, folder);
  describe_data_folder(report, files, folder);
}

void describe_file(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const std::filesystem::path folder = io::parent_of(path);
  switch (identify(files, path)) {
    case FileKind::safetensors: return describe_safetensors(report, files, path);
    case FileKind::gguf: return describe_gguf(report, files, path);
    case FileKind::index: return describe_index(report, files, path);
    case FileKind::config: return describe_config(report, files, path);
    case FileKind::generation_config: return describe_generation_config(report, files, folder);
    case FileKind::tokenizer: return describe_tokenizer(report, files, folder);
    case FileKind::manifest: return describe_checkpoint(report, files, folder);
    case FileKind::training_state: return describe_training_state(report, files, folder);
    case FileKind::profile: return describe_profile(report, files, path);
    case FileKind::tokens: return describe_tokens(report, files, path);
    case FileKind::jsonl: return describe_jsonl(report, files, path);
    case FileKind::text: return describe_text(report, files, path);
  }
}

}  // namespace

// in_quotes() cuts what is long and escapes what terminals would obey; only the quotes go.
std::string short_text(std::string_view text) {
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace measure

Inspection inspect(const std::string& path) {
  io::PosixFileSystem files;
  measure::Report report;
  report.json["path"] = path;
  if (path.starts_with("preset:")) {
    measure::describe_preset(report, files, path);
  } else if (!files.exists(path)) {
    throw IoError(fmt::format("{}: no such file or folder", path));
  } else if (files.is_directory(path)) {
    measure::describe_folder(report, files, path);
  } else {
    measure::describe_file(report, files, path);
  }
  return {.text = std::move(report.text),
          .json = report.json.dump(2, ' ', false, Json::error_handler_t::replace),
          .sound = report.sound};
}

}  // namespace ebb
