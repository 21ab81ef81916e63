// The parameters of a model: their names, shapes and places. Parameters live in blocks (the
// embedding, each transformer block, the head); a block's parameters are one flat run in every
// plane, so that chunks can be cut from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/list.h"
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
  bool residual = false;  // a projection back into the residual stream

  std::int64_t count() const { return rows * cols; }
};

// Whether a transformer block's parameters are one block, as training has them, or two, as
// generation places them: the attention with its norms, and the MLP with its norm. Elements within
// a parameter are the same in both.
enum class BlockCut { whole, halves };

struct ParameterBlock {
  enum class Kind { embedding, layer, head };
  enum class Half { both, attention, mlp };  // of a layer
  Kind kind = Kind::layer;
  Half half = Half::both;
  int layer = -1;  // which one, from 0 on; -1 for other kinds
  std::string name{};
  std::int64_t length = 0;  // with padding
  std::vector<int> parameters{};
};

// A parameter starts at a multiple of this many elements: vectors are aligned, and no two
// parameters share a block of compact optimizer states.
inline constexpr std::int64_t kParameterAlignment = 128;
constexpr std::int64_t block_length(std::int64_t count) {
  return (count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

struct Parameters {
  List<Parameter> all;  // in checkpoint order: block by block
  List<ParameterBlock> blocks;

  std::int64_t count() const;  // without padding
};

Parameters parameters_of(const Config&, BlockCut = BlockCut::whole);

// The name a parameter has in parameters_of, for a tensor's name in a file: some files leave the
// family's prefix out. Empty for what files hold besides parameters: buffers, and a tied head a
// second time.
std::string canonical_name(const Config&, std::string_view in_file);

inline constexpr std::int64_t kNowhere = -1;

// Places of a linear layer and of a norm within their block.
struct LinearPlace {
  std::int64_t in = 0, out = 0;
  std::int64_t weight = 0;
  std::int64_t bias = kNowhere;
};
struct NormPlace {
  std::int64_t weight = 0;
  std::int64_t bias = kNowhere;
};

// The place of each parameter of a transformer block within the block, or within its half; the same
// in every block. Layers that read the same input and follow each other without padding are one.
struct BlockPlaces {
  std::vector<LinearPlace> qkv;  // one, or q, k and v
  LinearPlace o;
  std::vector<LinearPlace> up;  // one, or gate and up
  LinearPlace down;
  NormPlace input_norm, post_norm;
  NormPlace q_norm, k_norm;  // with Config::qk_norm
  std::int64_t length = 0;   // of the block, or of its halves together
};
BlockPlaces block_places(const Config&, BlockCut = BlockCut::whole);

// A long vocabulary is used in pieces, one by one where memory is scarce: runs of rows of the
// tokens' table and of the head's, all as long but the last. The grid follows from the table's
// shape alone, since it fixes the order of sums. Short ones are one piece. A piece begins where a
// chunk may: at a multiple of the gradient norm's blocks.
struct VocabularyPieces {
  std::int64_t rows = 0;  // of a piece
  int count = 1;
  std::int64_t first(int piece) const { return piece * rows; }
};
VocabularyPieces vocabulary_pieces(const Config&);

// Where learned positions begin in the embedding's block: the tokens' table is at 0, they are
// behind it.
std::int64_t positions_place(const Config&);
// Where the last norm is in the head's block: its own table (not tied) is at 0, the norm is behind
// it.
NormPlace head_norm_place(const Config&);
// The last norm's parameters among themselves, without what lies before them.
NormPlace last_norm_alone(const Config&);

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
