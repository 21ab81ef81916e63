// Models: their configuration, and folders with all of their files.
#include <algorithm>
#include <functional>

#include <fmt/ranges.h>

#include "ebb/error.h"
#include "engine/generation_settings.h"
#include "files/json_file.h"
#include "files/manifest.h"
#include "files/model/gguf_tokenizer.h"
#include "files/model/sidecar_files.h"
#include "files/model/tokenizer.h"
#include "measure/inspect/report.h"
#include "states/format.h"

namespace ebb::measure {
namespace {

// What keeps Ebb from using a model; what comes after it is still told.
class Obstacles {
 public:
  // An ebb::Error is an obstacle, told once however many looks meet it; anything else goes on.
  void look(const std::function<void()>& at) {
    try {
      at();
    } catch (const Error& error) {
      const bool known = std::find(found_.begin(), found_.end(), error.what()) != found_.end();
      if (!known) found_.push_back(error.what());
    }
  }
  const std::vector<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> found_;
};

void add_shapes(Report& report, const model::Config& c) {
  const std::int64_t count = model::parameters_of(c).count();
  report.line("Model: {} family, {} parameters", c.family, format_count(count));
  report.line("  {} blocks of width {}, MLP {}, {} query heads and {} key-value heads of {}",
              c.layers, c.hidden, c.intermediate, c.heads, c.kv_heads, c.head_dim);
  report.line("  vocabulary {}, up to {} positions, {} embeddings", c.vocabulary, c.max_positions,
              c.tied ? "tied" : "untied");
  report.json["family"] = c.family;
  report.json["parameters"] = count;
  report.json["config"] = model::to_json(c, "bf16");
}

// What limits have to allow for at least; activations depend on the batch, and a plan says them.
void add_needs(Report& report, const model::Config& config) {
  const std::int64_t count = model::parameters_of(config).count();
  const auto state = [&](states::StateFormat format) {
    return static_cast<Bytes>(states::state_bytes_per_parameter({.format = format}) *
                              static_cast<double>(count));
  };
  using enum states::StateFormat;
  report.line("  weights in bf16 take {}; training state (exact) {} more, in bf16 {}, in int8 {}",
              format_bytes(2 * count), format_bytes(state(exact)), format_bytes(state(bf16)),
              format_bytes(state(int8)));
  report.json["needs"] = {{"weight_bytes_bf16", 2 * count},
                          {"weight_bytes_fp32", 4 * count},
                          {"training_state_bytes", state(exact)},
                          {"training_state_bytes_bf16", state(bf16)},
                          {"training_state_bytes_int8", state(int8)}};
}

// After all looks.
void add_verdict(Report& report, const Obstacles& obstacles) {
  report.json["usable"] = obstacles.found().empty();
  report.json["obstacles"] = obstacles.found();
  if (obstacles.found().empty()) report.line("Ebb can train it and generate with it.");
  for (const std::string& reason : obstacles.found()) {
    report.line("Ebb cannot train this: {}", reason);
  }
}

// What a config.json that Ebb refuses says of itself.
void add_unknown(Report& report, const Json& json) {
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? std::string("not given") : short_text(found->dump());
  };
  if (!json.is_object()) return;
  report.line("Model: model_type {}, architectures {}", text("model_type"), text("architectures"));
  report.json["config"] = json;
}

void add_generation(Report& report, const files::GenerationConfig& generation) {
  std::string words = generation.sample ? "draws tokens" : "takes the likeliest token";
  Json& json = report.json["generation"];
  json["sample"] = generation.sample;
  const auto add = [&](const char* name, const auto& value) {
    if (!value) return;
    words += fmt::format(", {} {}", name, *value);
    json[name] = *value;
  };
  add("temperature", generation.temperature);
  add("top_k", generation.top_k);
  add("top_p", generation.top_p);
  if (!generation.stops.empty()) {
    words += fmt::format(", ends at {}", fmt::join(generation.stops, " or "));
    json["eos_token_id"] = generation.stops;
  }
  report.line("Generation: {} ({})", words, files::kGenerationConfigName);
}

}  // namespace

void describe_preset(Report& report, io::FileSystem& files, const std::string& name) {
  const files::ModelSource source = files::find_model(files, name);
  report.json["kind"] = "preset";
  add_shapes(report, source.config);
  add_needs(report, source.config);
  report.line("Ebb can train it; its weights begin at random.");
}

void describe_config(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  report.json["kind"] = "configuration of a model";
  const Json json = files::read_json(files, path);
  Obstacles obstacles;
  obstacles.look([&] {
    const model::Config config = model::parse_config(json, path.string());
    add_shapes(report, config);
    add_needs(report, config);
  });
  if (!obstacles.found().empty()) add_unknown(report, json);
  add_verdict(report, obstacles);
}

void describe_generation_config(Report& report, io::FileSystem& files,
                                const std::filesystem::path& folder) {
  report.json["kind"] = "settings of generation";
  if (const auto generation = files::read_generation_config(files, folder)) {
    add_generation(report, *generation);
  }
}

// Goes on after what it cannot use: people who mend one file want to hear of the others, too.
void describe_model_folder(Report& report, io::FileSystem& files,
                           const std::filesystem::path& folder) {
  const bool checkpoint = files.exists(folder / files::kManifestName);
  report.json["kind"] = checkpoint ? "checkpoint" : "model";
  if (checkpoint) describe_checkpoint(report, files, folder);
  Obstacles obstacles;
  files::ModelSource source{
      .name = folder.string(), .config = {}, .folder = folder, .stored_config = {}};
  source.stored_config = files::read_json(files, folder / "config.json");
  obstacles.look([&] {
    source = files::find_model(files, folder.string());
    add_shapes(report, source.config);
    add_needs(report, source.config);
  });
  const bool known = obstacles.found().empty();
  if (!known) add_unknown(report, source.stored_config);
  if (text::has_tokenizer(files, folder)) {
    obstacles.look([&] { describe_tokenizer(report, files, folder); });
    if (known) obstacles.look([&] { files::find_tokenizer(files, source); });
  } else {
    report.line("Tokenizer: none in the folder; texts are bytes unless --tokenizer says otherwise");
    report.json["tokenizer"] = nullptr;
  }
  obstacles.look([&] {
    if (const auto generation = files::read_generation_config(files, folder)) {
      add_generation(report, *generation);
    }
  });
  // Names and shapes can be compared only where the configuration was understood.
  if (known) obstacles.look([&] { files::check_weights(files, source); });
  // Told last, as it has a line for each tensor: the verdict stands above it.
  Report weights;
  obstacles.look([&] { describe_weights(weights, files, folder); });
  add_verdict(report, obstacles);
  report.text += weights.text;
  report.json.update(weights.json);
}

void describe_gguf(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  report.json["kind"] = "GGUF model";
  const files::GgufFiles gguf(files, path);
  Obstacles obstacles;
  files::ModelSource source;
  obstacles.look([&] {
    source = files::find_model(files, path.string());
    add_shapes(report, source.config);
    add_needs(report, source.config);
  });
  const bool known = obstacles.found().empty();
  if (!files::gguf_tokens_are_bytes(gguf)) {
    obstacles.look([&] { describe_tokenizer(report, files::gguf_tokenizer(gguf), path); });
  }
  if (known) {
    obstacles.look([&] { files::find_tokenizer(files, source); });
    obstacles.look([&] { files::check_weights(files, source); });
  }
  add_verdict(report, obstacles);
  describe_gguf_content(report, gguf);
}

}  // namespace ebb::measure
