#include "files/model/gguf_model_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/config_keys.h"
#include "files/gguf/gguf_files.h"
#include "files/gguf/writer.h"
#include "files/model/gguf_tensors.h"
#include "files/model/gguf_tokenizer.h"
#include "files/model/gguf_tokenizer_keys.h"

namespace ebb::files {
namespace {

constexpr std::string_view kArchitecture = "general.architecture";
constexpr std::string_view kFileType = "general.file_type";
constexpr std::string_view kQuantizationVersion = "general.quantization_version";
constexpr std::uint32_t kBlocksVersion = 2;  // of all that are written now

// Elements that a thread has at once: whole blocks of every type.
constexpr std::int64_t kPieceElements = 128 << 10;
// Pieces of a thread between two looks at the progress.
constexpr std::int64_t kPiecesAtOnce = 16;

// Keys of the file that are said anew, or that are of what the file was and this one is not.
bool is_replaced(std::string_view key, bool tokenizer_too) {
  return key == kFileType || key == kQuantizationVersion || key == "general.alignment" ||
         key.starts_with("split.") ||
         (tokenizer_too && (key.starts_with("tokenizer.") || key == kGgufBytesKey));
}

void copy_keys(const GgufFiles& gguf, bool without_tokenizer, GgufKeys& keys) {
  const GgufPart& part = gguf.parts().front();
  std::vector<std::byte> value;
  for (const auto& [key, extent] : part.header.extents) {
    if (is_replaced(key, without_tokenizer)) continue;
    value.resize(to_size(extent.bytes));
    part.file->read(extent.offset, value);
    keys.add_stored(key, value);
  }
}

// What a model is called: its folder's last name, or the preset's.
std::string name_of_model(const ModelSource& source) {
  std::filesystem::path path = source.name;
  if (!source.has_weights()) return source.name;
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

GgufKeys keys_of(io::FileSystem& files, const ModelSource& source, const GgufModelOptions& options,
                 WrittenGguf& written) {
  GgufKeys keys;
  if (source.file.empty()) {
    keys.add(kArchitecture, gguf_architecture(source.config));
    keys.add("general.type", "model");
    keys.add("general.name", name_of_model(source));
  } else {
    copy_keys(GgufFiles(files, source.file),
              options.tokenizer != nullptr || options.without_tokenizer, keys);
  }
  keys.add(kFileType, options.type->number);
  keys.add(kQuantizationVersion, kBlocksVersion);
  if (source.file.empty()) add_config_keys(source.config, keys);
  if (options.tokenizer != nullptr) {
    add_tokenizer_keys(files, *options.tokenizer, source, keys, written.warnings);
  } else if (source.file.empty() || options.without_tokenizer) {
    add_no_tokenizer(keys);
  }
  return keys;
}

struct Piece {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class Narrowing {
 public:
  Narrowing(ThreadPool& pool, const GgufTensors& from, GgufWriter& to, const GgufFileType& type,
            const GgufProgress& progress)
      : pool_(pool),
        from_(from),
        to_(to),
        type_(type),
        progress_(progress),
        buffers_(to_size(pool.slots())) {}

  void run() {
    for (const OfferedTensor& tensor : from_.tensors()) elements_ += tensor.count();
    for (std::size_t t = 0; t < from_.tensors().size(); ++t) {
      const OfferedTensor& tensor = from_.tensors()[t];
      const std::int64_t step =
          std::max<std::int64_t>(1, kPieceElements / tensor.grain) * tensor.grain;
      for (std::int64_t first = 0; first < tensor.count(); first += step) {
        pieces_.push_back({t, first, std::min(step, tensor.count() - first)});
        if (std::ssize(pieces_) == kPiecesAtOnce * pool_.slots()) flush();
      }
    }
    flush();
  }

 private:
  struct Buffers {
    std::vector<float> values;
    std::vector<std::byte> bytes;
  };

  void flush() {
    pool_.parallel_for(std::ssize(pieces_), [&](std::int64_t i, int slot) {
      narrow_piece(pieces_[to_size(i)], buffers_[to_size(slot)]);
    });
    for (const Piece& piece : pieces_) done_ += piece.count;
    pieces_.clear();
    if (progress_) progress_(done_, elements_);
  }

  void narrow_piece(const Piece& piece, Buffers& buffers) {
    const GgufType& type = to_.tensors()[piece.tensor].type;
    const Grain grain = grain_of(type);
    buffers.bytes.resize(to_size(grain.size_of(piece.count)));
    if (from_.tensors()[piece.tensor].stored == type) {
      from_.read_stored(piece.tensor, piece.first, buffers.bytes);
    } else {
      buffers.values.resize(to_size(piece.count));
      from_.read(piece.tensor, piece.first, buffers.values);
      check(piece, type, buffers.values);
      narrow(type, buffers.values, buffers.bytes);
    }
    to_.write(piece.tensor, grain.size_of(piece.first), buffers.bytes);
  }

  void check(const Piece& piece, const GgufType& type, std::span<const float> values) const {
    const float most = largest_in(type);
    const auto bad =
        std::ranges::find_if_not(values, [most](float value) { return std::abs(value) <= most; });
    if (bad == values.end()) return;
    const std::string at =
        fmt::format("{} has the value {} at element {}", from_.where(piece.tensor), *bad,
                    piece.first + (bad - values.begin()));
    if (!std::isfinite(*bad)) {
      throw FormatError(at +
                        "; weights must be finite: get the file again, or mend the model that was "
                        "saved");
    }
    throw ConfigError(fmt::format("--type {}: {}, and {} holds at most {}; bf16 and f32 hold it",
                                  type_.name, at, name_of(type), most));
  }

  ThreadPool& pool_;
  const GgufTensors& from_;
  GgufWriter& to_;
  const GgufFileType& type_;
  const GgufProgress& progress_;
  std::vector<Buffers> buffers_;
  std::vector<Piece> pieces_;
  std::int64_t elements_ = 0;
  std::int64_t done_ = 0;
};

// Files hold these numbers as fp32; families that share an architecture share all that counts.
model::Config as_in_a_file(model::Config config) {
  const auto narrowed = [](double& value) {
    value = static_cast<double>(static_cast<float>(value));
  };
  narrowed(config.norm_epsilon);
  narrowed(config.rope_theta);
  narrowed(config.rope_scaling.factor);
  config.family = gguf_architecture(config);
  config.initializer_range = 0;
  return config;
}

void check_written(io::FileSystem& files, const ModelSource& source,
                   const std::filesystem::path& partial) {
  const ModelSource read = find_model(files, partial.string());
  check_weights(files, read);
  if (as_in_a_file(read.config) == as_in_a_file(source.config)) return;
  throw FormatError(fmt::format(
      "'{}': what was written is not the model of {}: a defect of Ebb, please report it with the "
      "model's config.json",
      partial.string(), source.name));
}

}  // namespace

WrittenGguf write_gguf_model(io::FileSystem& files, ThreadPool& pool, const ModelSource& source,
                             const GgufModelOptions& options, const std::filesystem::path& path,
                             const GgufProgress& progress) {
  if (source.file.empty()) check_gguf_can_say(source.config, source.name);
  const model::Config& config = source.config;
  const MixedModel mixed{.architecture = gguf_architecture(config),
                         .layers = config.layers,
                         .heads = config.heads,
                         .kv_heads = config.kv_heads,
                         .tied = config.tied};
  const std::unique_ptr<GgufTensors> tensors = open_gguf_tensors(files, source, options.seed);
  WrittenGguf written;
  std::vector<GgufTensorSpec> specs;
  for (const OfferedTensor& tensor : tensors->tensors()) {
    const auto [type, fallback] = type_in_file(*options.type, mixed, tensor.name, tensor.shape);
    specs.push_back({tensor.name, type, tensor.shape});
    ++written.types[std::string(name_of(type))];
    written.parameters += tensor.count();
    if (fallback) written.fallbacks.push_back(fmt::format("{} as {}", tensor.name, name_of(type)));
    if (tensor.stored && in_blocks(*tensor.stored) && in_blocks(type) && *tensor.stored != type) {
      written.requantized = true;
    }
  }
  GgufWriter writer(files, path, keys_of(files, source, options, written), std::move(specs));
  Narrowing(pool, *tensors, writer, *options.type, progress).run();
  check_written(files, source, writer.partial());
  writer.publish();
  written.bytes = writer.bytes();
  return written;
}

}  // namespace ebb::files
