// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/units.h"

namespace ebb {

struct GenerateOptions {
  std::string model;  // a model's folder, or a run's: its last checkpoint
  std::string prompt;
  std::int64_t max_tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // 0: all
  double top_p = 1.0;
  std::uint64_t seed = 0;
  std::string dtype = "auto";   // as stored, or bf16, fp32
  std::string device = "auto";  // cpu, cuda; auto: a GPU where there is one
  int threads = 0;
  std::optional<Bytes> device_memory;
  std::optional<Bytes> host_memory;
};

struct GenerateSummary {
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;
  double prompt_seconds = 0;
  double tokens_per_second = 0;
  Bytes device_limit = 0;
  Bytes device_peak = 0;
};

// Hands the text over as it comes, whole characters at a time; `piece` returns false to stop.
GenerateSummary generate(const GenerateOptions& options,
                         const std::function<bool(std::string_view piece)>& piece);

}  // namespace ebb
