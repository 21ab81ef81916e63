// A GGUF file: its header, then, as far as it goes, its configuration, its weights and its
// tokenizer.
#include <vector>

#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/config.h"
#include "files/gguf/gguf_files.h"
#include "files/model/gguf_tokenizer.h"
#include "files/model/gguf_weights.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "model/config.h"

namespace ebb::fuzz {
namespace {

// A tensor of 33 bytes takes some 300: its name twice, a list of its sizes, lists that grow. A
// token of 8 bytes, empty, is a text of 32, and its JSON and that as text. A block that has a
// parameter missing is described all the same.
constexpr Bytes kBytesPerByte = 256;
// A piece of 256 bytes may be cut in 255 ways, each of which says it again, as JSON and as text.
constexpr Bytes kTokenizerBytesPerByte = 16 * 1024;
constexpr Bytes kTables = 1 * kMiB;
// Inputs beyond are for the header alone.
constexpr std::size_t kLongestTokenizer = 8 * 1024;

template <class Act>
void try_to(const Act& act) {
  try {
    act();
  } catch (const Error&) {
    // Files may be no models.
  }
}

// All weights of a model with as many parameters as there are tensors.
void read_weights(io::FileSystem& memory, const files::GgufFiles& gguf) {
  files::ModelSource source;
  source.file = gguf.path();
  source.config = model::parse_config(files::gguf_config(gguf), "model.gguf");
  // Keys may speak of more blocks than there are tensors for: loading refuses that, too.
  const auto tensors = static_cast<std::int64_t>(gguf.tensor_count());
  if (source.config.layers > tensors) return;
  const model::Parameters parameters = model::parameters_of(source.config);
  files::GgufWeights weights(memory, source, parameters);
  std::vector<float> values;
  for (std::int64_t p = 0; p < parameters.all.count(); ++p) {
    const std::int64_t count = parameters.all[p].count();
    for (std::int64_t first = 0; first < count; first += files::kWeightPiece) {
      values.resize(to_size(std::min(files::kWeightPiece, count - first)));
      weights.read(static_cast<int>(p), first, values);
    }
  }
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const auto body = [](std::string_view text) {
    MemoryFiles memory({{"model.gguf", text}});
    const files::GgufFiles gguf(memory, "model.gguf");
    const auto file_bytes = static_cast<Bytes>(text.size());
    Bytes end = 0;
    for (const files::GgufTensor& tensor : gguf.parts().front().header.tensors) {
      require(
          tensor.offset >= end && tensor.bytes > 0 && tensor.bytes <= file_bytes - tensor.offset,
          "tensors follow each other inside the file");
      require(grain_of(tensor.type).size_of(tensor.count()) == tensor.bytes,
              "a tensor's size is its shape's");
      require(gguf.find(tensor.name).tensor == &tensor, "a tensor is found by its name");
      end = tensor.offset + tensor.bytes;
    }
    try_to([&] { read_weights(memory, gguf); });
    if (text.size() > kLongestTokenizer) return;
    Json ids = Json::object();
    try_to([&] { files::add_gguf_token_ids(gguf, ids); });
    files::gguf_tokenizer(gguf);
  };
  const bool tokenizer = size <= kLongestTokenizer;
  return run(
      data, size,
      {.bytes_per_byte = tokenizer ? kTokenizerBytesPerByte : kBytesPerByte, .free_bytes = kTables},
      body);
}
