// The parameters of a model: their names, shapes and places. Parameters live in blocks (the
// embedding, each transformer block, the head); a block's parameters are one flat run in every
// plane, so that chunks can be cut from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace ebb::model {

struct Parameter {
  std::string name;  // as in Hugging Face's files
  int block = 0;
  std::int64_t first = 0;  // within its block
  std::int64_t rows = 0;
  std::int64_t cols = 1;  // 1 for vectors
  bool matrix = false;    // matrices decay, norms and biases do not
  enum class Start { normal, ones, zeros } start = Start::normal;

  std::int64_t count() const { return rows * cols; }
};

struct ParameterBlock {
  std::string name;
  std::int64_t length = 0;  // with padding
  std::vector<int> parameters;
};

// A parameter starts at a multiple of this many elements, so that vectors of 16 bytes are aligned.
inline constexpr std::int64_t kParameterAlignment = 16;
constexpr std::int64_t block_length(std::int64_t count) {
  return (count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

struct Parameters {
  std::vector<Parameter> all;  // in checkpoint order: block by block
  std::vector<ParameterBlock> blocks;

  std::int64_t count() const;  // without padding
};

Parameters parameters_of(const Config&);

// The name a parameter has in parameters_of, for a tensor's name in a file: older files leave a
// prefix out. Empty for what files hold besides parameters: buffers, and a tied head a second time.
std::string canonical_name(const Config&, std::string_view in_file);

// The place of each parameter of a transformer block within the block; the same in every block.
struct BlockOffsets {
  std::int64_t q = 0, k = 0, v = 0, o = 0, gate = 0, up = 0, down = 0;
  std::int64_t q_bias = 0, k_bias = 0, v_bias = 0;
  std::int64_t input_norm = 0, post_norm = 0;
  std::int64_t length = 0;
  bool qkv_joined = false;  // q, k and v follow each other without padding: one matrix
  bool gate_up_joined = false;
};
BlockOffsets block_offsets(const Config&);

// The initial value of element `index` of a parameter: depends on seed, name and index alone.
class Initializer {
 public:
  Initializer(const Config& config, std::uint64_t seed) : config_(config), seed_(seed) {}
  void fill(const Parameter& parameter, std::int64_t first, std::int64_t count, float* out) const;

 private:
  Config config_;
  std::uint64_t seed_;
};

}  // namespace ebb::model
