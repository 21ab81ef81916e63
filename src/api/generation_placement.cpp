#include "api/generation_placement.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"

namespace ebb::api {
namespace {

void require_least(const std::optional<std::int64_t>& value, std::int64_t least, const char* flag) {
  if (!value || *value >= least) return;
  throw ConfigError(fmt::format("{} {}: expected at least {}", flag, *value, least));
}

}  // namespace

void set_placement(const GenerationPlacement& placement, io::FileSystem* files,
                   engine::GeneratorSettings& settings) {
  require_least(placement.slice, 1, "--slice");
  require_least(placement.depth, plan::Choices::kLeastDepth, "--depth");
  require_least(placement.disk_weights, 0, "--disk-weights");
  if (placement.disk_weights.value_or(0) > 0 && placement.disk.empty()) {
    throw ConfigError(fmt::format("--disk-weights {}: there is no disk; give --disk PATH[:BYTES]",
                                  *placement.disk_weights));
  }
  plan::FixedGenerationChoices& fixed = settings.fixed;
  fixed.streamed_weights = placement.weights.count();
  fixed.disk_weights = placement.disk_weights;
  fixed.cpu_blocks = placement.cpu_blocks.count();
  fixed.cpu_prompt_blocks = placement.cpu_prompt_blocks.count();
  fixed.slice = placement.slice;
  fixed.depth = placement.depth;
  switch (placement.attention) {
    case AttentionWeights::automatic: break;
    case AttentionWeights::resident: fixed.attention_resident = 1; break;
    case AttentionWeights::stream: fixed.attention_resident = 0; break;
  }
  switch (placement.cache) {
    case CachePlacement::automatic: break;
    case CachePlacement::device: fixed.cache = plan::CacheHome::device; break;
    case CachePlacement::host: fixed.cache = plan::CacheHome::host; break;
    case CachePlacement::mixed: fixed.cache = plan::CacheHome::mixed; break;
  }
  if (!placement.disk.empty()) {
    engine::add_disk(settings, engine::find_disks(placement.disk, files));
  }
}

}  // namespace ebb::api
