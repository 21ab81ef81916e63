#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"
#include "model/families/family.h"

namespace ebb::model {
namespace {

struct Preset {
  std::string_view name;
  std::string_view family;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, max_positions;
  double rope_theta, norm_epsilon;
  bool tied;
  double rope_factor = 0;   // of Llama 3's scaling
  std::int64_t window = 0;  // of all layers
};

// The shapes of the published models (weights are random; bring a folder for real ones). The small
// vocabularies hold 256 bytes and the end of a text, rounded up.
constexpr std::array kPresets = {
    Preset{"tiny", "llama", 128, 4, 4, 2, 32, 384, 272, 4096, 1e4, 1e-5, true},
    Preset{"small", "llama", 320, 8, 5, 5, 64, 864, 272, 4096, 1e4, 1e-5, true},
    Preset{"qwen2.5-0.5b", "qwen2", 896, 24, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6, true},
    Preset{"qwen2.5-1.5b", "qwen2", 1536, 28, 12, 2, 128, 8960, 151936, 32768, 1e6, 1e-6, true},
    Preset{"qwen2.5-3b", "qwen2", 2048, 36, 16, 2, 128, 11008, 151936, 32768, 1e6, 1e-6, true},
    Preset{"qwen2.5-7b", "qwen2", 3584, 28, 28, 4, 128, 18944, 152064, 32768, 1e6, 1e-6, false},
    Preset{"qwen2.5-14b", "qwen2", 5120, 48, 40, 8, 128, 13824, 152064, 32768, 1e6, 1e-5, false},
    Preset{"qwen2.5-32b", "qwen2", 5120, 64, 40, 8, 128, 27648, 152064, 32768, 1e6, 1e-5, false},
    Preset{"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 40960, 1e6, 1e-6, true},
    Preset{"llama-3.2-1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5, true, 32},
    Preset{"llama-3.2-3b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, 131072, 5e5, 1e-5, true,
           32},
    Preset{"llama-3.1-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, 131072, 5e5, 1e-5, false,
           8},
    Preset{"llama-3.1-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256, 131072, 5e5, 1e-5, false,
           8},
    Preset{"mistral-7b", "mistral", 4096, 32, 32, 8, 128, 14336, 32000, 32768, 1e4, 1e-5, false, 0,
           4096},
    Preset{"gemma-2b", "gemma", 2048, 18, 8, 1, 256, 16384, 256000, 8192, 1e4, 1e-6, true},
    Preset{"gpt2", "gpt2", 768, 12, 12, 12, 64, 3072, 50257, 1024, 1e4, 1e-5, true},
};

}  // namespace

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& p : kPresets) names.push_back(p.name);
  return names;
}

Config preset(std::string_view name) {
  for (const Preset& p : kPresets) {
    if (p.name != name) continue;
    Config config{.family = std::string(p.family)};
    family(p.family).features(config);
    config.hidden = p.hidden;
    config.layers = p.layers;
    config.heads = p.heads;
    config.kv_heads = p.kv_heads;
    config.head_dim = p.head_dim;
    config.intermediate = p.intermediate;
    config.vocabulary = p.vocabulary;
    config.max_positions = p.max_positions;
    config.rope_theta = p.rope_theta;
    config.norm_epsilon = p.norm_epsilon;
    config.tied = p.tied;
    if (p.rope_factor > 0) {
      config.rope_scaling = {.kind = RopeScaling::Kind::llama3, .factor = p.rope_factor};
    }
    if (p.window > 0) config.windows.assign(p.layers, p.window);
    return config;
  }
  throw ConfigError(fmt::format("preset:{} is not known. The presets are: {}.", name,
                                fmt::join(preset_names(), ", ")));
}

}  // namespace ebb::model
