// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/units.h"

namespace ebb {

struct GenerateOptions {
  std::string model;      // a model's folder, or a run's: its last checkpoint
  std::string tokenizer;  // a folder with tokenizer.json; empty: the model's own, or bytes
  std::string prompt;
  bool chat = false;   // the prompt is what a user says, put through the model's chat template
  std::string system;  // with chat: the instructions before it
  std::int64_t max_tokens = 200;
  // Where not given, what generation_config.json says, else 0.8, all and 1.
  std::optional<double> temperature;  // 0: always the likeliest token
  std::optional<std::int64_t> top_k;  // 0: all
  std::optional<double> top_p;
  std::uint64_t seed = 0;
  std::string dtype = "auto";   // as stored, or bf16, fp32
  std::string device = "auto";  // cpu, cuda; auto: a GPU where there is one
  int threads = 0;
  std::optional<Bytes> device_memory;
  std::optional<Bytes> host_memory;
  bool verify = true;  // a checkpoint's checksums, before its weights are used
};

struct GenerateSummary {
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;
  std::string settings;  // how tokens were chosen and where the text ends, for people
  std::string warning;   // what makes the text other than the model's name says; empty: nothing
  double prompt_seconds = 0;
  double tokens_per_second = 0;
  Bytes device_limit = 0;
  Bytes device_peak = 0;
  std::string json;  // all of it, the ids and the text too
};

// Hands the text over as it comes, whole characters at a time; `piece` returns false to stop.
GenerateSummary generate(const GenerateOptions& options,
                         const std::function<bool(std::string_view piece)>& piece);

}  // namespace ebb
