// A model as one GGUF file, in fewer bits if wanted: for Ebb, and for all others that read such
// files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/units.h"

namespace ebb {

struct QuantizeOptions {
  // A model's folder, a run's (its last checkpoint), a GGUF file, or preset:NAME with random
  // weights.
  std::string model;
  // A folder with tokenizer.json, bytes, or none; empty: the model's own.
  std::string tokenizer;
  std::string out;         // the GGUF file to make; one that is there is replaced
  std::string type;        // one of quantize_types(), such as q8_0 or q4_k_m
  std::uint64_t seed = 0;  // of a preset's random weights
  int threads = 0;         // 0: as many as the machine lets us use
  bool verify = true;      // a checkpoint's checksums, before its weights are used
};

struct QuantizeProgress {
  std::int64_t parameters = 0;  // done
  std::int64_t of_parameters = 0;
  double parameters_per_second = 0;
  double seconds_left = 0;  // a prediction from those so far
};

struct QuantizeSummary {
  Bytes bytes = 0;  // of the file
  std::int64_t parameters = 0;
  double bits_per_parameter = 0;
  std::string types;                   // "57 Q4_K, 13 F32": tensors of each type
  std::vector<std::string> fallbacks;  // "NAME as Q5_0": rows that are no whole blocks of the mix's
  std::vector<std::string> warnings;
  double seconds = 0;
};

// The kinds of files, as llama.cpp names them.
std::vector<std::string_view> quantize_types();

// The file appears under its name when it is complete; its bytes do not depend on the number of
// threads. Memory is bounded by a MiB or so for each thread, whatever the model's size, and the
// tokenizer's. Throws an ebb::Error. `progress` is called now and then, on the calling thread.
QuantizeSummary quantize(const QuantizeOptions& options,
                         const std::function<void(const QuantizeProgress&)>& progress = {});

}  // namespace ebb
