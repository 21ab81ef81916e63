#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"
#include "model/config.h"

namespace ebb::model {
namespace {

struct Preset {
  std::string_view name;
  std::string_view family;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, max_positions;
  double rope_theta, norm_epsilon;
  bool tied;
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
    Preset{"llama-3.2-1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5, true},
    Preset{"llama-3.2-3b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, 131072, 5e5, 1e-5, true},
    Preset{"llama-3.1-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, 131072, 5e5, 1e-5, false},
    Preset{"llama-3.1-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256, 131072, 5e5, 1e-5, false},
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
    return {.family = std::string(p.family),
            .hidden = p.hidden,
            .layers = p.layers,
            .heads = p.heads,
            .kv_heads = p.kv_heads,
            .head_dim = p.head_dim,
            .intermediate = p.intermediate,
            .vocabulary = p.vocabulary,
            .max_positions = p.max_positions,
            .rope_theta = p.rope_theta,
            .norm_epsilon = p.norm_epsilon,
            .qkv_bias = p.family == "qwen2",
            .tied = p.tied};
  }
  throw ConfigError(fmt::format("preset:{} is not known. The presets are: {}.", name,
                                fmt::join(preset_names(), ", ")));
}

}  // namespace ebb::model
