// What `inspect` has to say of a thing: lines for people and an object for programs, filled by the
// functions below. Each of them adds its part; what a file has wrong becomes part of the report
// where the rest can still be told.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "files/gguf/gguf_files.h"
#include "files/model/source.h"
#include "io/file_system.h"
#include "text/tokenizer_folder.h"

namespace ebb::measure {

struct Report {
  std::string text;
  Json json = Json::object();
  bool sound = true;

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
};

// Text from a file, fit for a terminal: bounded, without control characters.
std::string short_text(std::string_view text);

// preset:NAME.
void describe_preset(Report& report, io::FileSystem& files, const std::string& name);
// A folder with config.json, a checkpoint's too.
void describe_model_folder(Report& report, io::FileSystem& files,
                           const std::filesystem::path& folder);
// config.json by itself.
void describe_config(Report& report, io::FileSystem& files, const std::filesystem::path& path);
void describe_generation_config(Report& report, io::FileSystem& files,
                                const std::filesystem::path& folder);

// A GGUF file with all its parts: a model.
void describe_gguf(Report& report, io::FileSystem& files, const std::filesystem::path& path);
// Its keys, then its tensors.
void describe_gguf_content(Report& report, const files::GgufFiles& gguf);

void describe_safetensors(Report& report, io::FileSystem& files, const std::filesystem::path& path);
void describe_index(Report& report, io::FileSystem& files, const std::filesystem::path& path);
// Every file of a model's weights: how many tensors of which types, then each of them.
void describe_weights(Report& report, io::FileSystem& files, const std::filesystem::path& folder);

// tokenizer.json and what lies beside it.
void describe_tokenizer(Report& report, io::FileSystem& files, const std::filesystem::path& folder);
// The same of a tokenizer that came in another way.
void describe_tokenizer(Report& report, const text::TokenizerTexts& texts,
                        const std::filesystem::path& where);

void describe_checkpoint(Report& report, io::FileSystem& files,
                         const std::filesystem::path& folder);
void describe_training_state(Report& report, io::FileSystem& files,
                             const std::filesystem::path& folder);

// A profile of a machine: its speeds, and where each is from.
void describe_profile(Report& report, io::FileSystem& files, const std::filesystem::path& path);

void describe_tokens(Report& report, io::FileSystem& files, const std::filesystem::path& path);
void describe_jsonl(Report& report, io::FileSystem& files, const std::filesystem::path& path);
void describe_text(Report& report, io::FileSystem& files, const std::filesystem::path& path);
void describe_data_folder(Report& report, io::FileSystem& files,
                          const std::filesystem::path& folder);

}  // namespace ebb::measure
