#include "files/model/sidecar_files.h"

#include <algorithm>

#include "io/memory_file.h"

namespace ebb::files {

SidecarFiles find_sidecar_files(io::FileSystem& files, const ModelSource& source,
                                const std::filesystem::path& tokenizer_folder,
                                std::span<const std::string> tokenizer_files,
                                const std::shared_ptr<const text::TokenizerTexts>& made) {
  SidecarFiles found{.config = source.config, .stored_config = source.stored_config, .copies = {}};
  const auto take = [&](const std::filesystem::path& folder, const std::string& name) {
    const bool known =
        std::any_of(found.copies.begin(), found.copies.end(),
                    [&](const SidecarFiles::Copy& copy) { return copy.name == name; });
    if (known || !files.exists(folder / name)) return;
    found.copies.push_back({name, files.open(folder / name)});
  };
  if (made != nullptr) {
    for (const auto& [name, text] : *made) {
      // All texts live as long as any of them.
      const std::shared_ptr<const std::string> shared(made, &text);
      found.copies.push_back({name, std::make_shared<io::MemoryFile>(name, shared)});
    }
  }
  for (const std::string& name : tokenizer_files) take(tokenizer_folder, name);
  if (!source.folder.empty()) take(source.folder, std::string(kGenerationConfigName));
  return found;
}

Json config_to_save(const SidecarFiles& sidecar_files, DType dtype) {
  const Json ours = model::to_json(sidecar_files.config, name_of(dtype));
  if (sidecar_files.stored_config.is_null()) return ours;
  Json json = sidecar_files.stored_config;
  if (!json.contains("architectures")) json["architectures"] = ours["architectures"];
  const char* type = dtype == DType::f32 ? "float32" : "bfloat16";
  // Newer files say dtype, older ones torch_dtype.
  if (json.contains("dtype")) json["dtype"] = type;
  if (json.contains("torch_dtype") || !json.contains("dtype")) json["torch_dtype"] = type;
  return json;
}

}  // namespace ebb::files
