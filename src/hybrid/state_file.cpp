#include "hybrid/state_file.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/digest.h"
#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/safetensors_header.h"

namespace ebb::hybrid {
namespace {

using files::StoredType;
using kernels::StateFormat;
using states::plane_bytes;

constexpr std::string_view kKind = "ebb optimizer state";
constexpr std::string_view kVersion = "2";
constexpr std::string_view kVersionWithoutNames = "1";
constexpr std::string_view kDigestName = "digest";
constexpr Bytes kDigestBytes = 32;

std::string tensor_name(const std::string& parameter, Plane plane) {
  return fmt::format("{}.{}", parameter, name_of(plane));
}

files::TensorSpec spec_of(const Parameter& parameter, Plane plane, const states::StateKind& kind) {
  const StoredType type = files::stored_type(plane, kind);
  return {tensor_name(parameter.name, plane),
          type,
          {plane_bytes(plane, kind, parameter.count) / files::size_of(type)}};
}

std::vector<files::TensorSpec> specs_of(const StateStore& store) {
  std::vector<files::TensorSpec> specs;
  for (int p = 0; p < static_cast<int>(store.parameters().size()); ++p) {
    for (const Plane plane : all_planes(store.kind_of(p))) {
      specs.push_back(spec_of(store.parameters()[to_size(p)], plane, store.kind_of(p)));
    }
  }
  specs.push_back({std::string(kDigestName), StoredType::u8, {kDigestBytes}});
  return specs;
}

// What the metadata says is part of the state.
Digest digest_of(const StateInfo& info) {
  Digest digest;
  const std::string text = fmt::format("{} {} {} {}", states::name_of(info.rule),
                                       kernels::name_of(info.format), info.seed, info.step);
  digest.add(std::as_bytes(std::span(text)));
  return digest;
}

// What a header says of a plane, for the digest. Planes follow each other without gaps, so their
// order says where they are.
void add_plane(Digest& digest, const std::string& name, StoredType type,
               const std::vector<std::int64_t>& shape) {
  const std::string text =
      fmt::format("{} {} {} [{}]", name.size(), name, files::name_of(type), fmt::join(shape, ", "));
  digest.add(std::as_bytes(std::span(text)));
}

void write_planes(files::SafetensorsWriter& file, StateStore& store, const StateInfo& info) {
  Digest digest = digest_of(info);
  for (int p = 0; p < static_cast<int>(store.parameters().size()); ++p) {
    const states::StateKind kind = store.kind_of(p);
    for (const Plane plane : all_planes(kind)) {
      const auto spec = spec_of(store.parameters()[to_size(p)], plane, kind);
      add_plane(digest, spec.name, spec.type, spec.shape);
      store.read_plane(plane, p, [&](std::span<const std::byte> piece) {
        digest.add(piece);
        file.write(piece);
      });
    }
  }
  const std::string hex = digest.hex();
  file.write(std::as_bytes(std::span(hex)));
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view what) {
  throw FormatError(fmt::format("'{}': {}", path.string(), what));
}

const std::string& metadata_of(const files::SafetensorsReader& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    refuse(file.path(), fmt::format("expected a file that an optimizer saved, found no \"{}\" in "
                                    "its metadata",
                                    key));
  }
  return found->second;
}

template <class Number>
Number number_of(const files::SafetensorsReader& file, const std::string& key, Number most) {
  const std::string& text = metadata_of(file, key);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) {
    refuse(file.path(), fmt::format("its metadata's {} is {}, expected a whole number from 0 to {}",
                                    key, in_quotes(text), most));
  }
  return number;
}

StateFormat format_of(const files::SafetensorsReader& file) {
  const std::string& text = metadata_of(file, "state_format");
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    if (text == kernels::stored_name_of(format)) return format;
  }
  refuse(file.path(), fmt::format("its state_format is {}, expected {}, {} or {}", in_quotes(text),
                                  kernels::stored_name_of(StateFormat::exact),
                                  kernels::stored_name_of(StateFormat::bf16),
                                  kernels::stored_name_of(StateFormat::int8)));
}

}  // namespace

void check_names(const StateStore& store) {
  try {
    files::format_header(specs_of(store), {}, "the state of these parameters");
  } catch (const FormatError& error) {
    throw ConfigError(error.what());
  }
}

void save_state(io::FileSystem& files, const std::filesystem::path& path, StateStore& store,
                const StateInfo& info) {
  std::filesystem::path partial = path;
  partial += ".partial";
  try {
    files::SafetensorsWriter file(
        files, partial, specs_of(store),
        {{"kind", std::string(kKind)},
         {"version", std::string(kVersion)},
         {"rule", std::string(states::name_of(info.rule))},
         {"state_format", std::string(kernels::stored_name_of(info.format))},
         {"seed", fmt::to_string(info.seed)},
         {"step", fmt::to_string(info.step)}});
    write_planes(file, store, info);
    file.finish();
    files.rename(partial, path);
  } catch (...) {
    try {
      if (!files.is_directory(partial)) files.remove_all(partial);  // a folder is not ours
    } catch (const IoError&) {                                      // what failed first says more
    }
    throw;
  }
  files.sync_directory(io::parent_of(path));
}

StateFile::StateFile(io::FileSystem& files, const std::filesystem::path& path,
                     const StateStore& store, const states::Rule& rule)
    : file_(files, path) {
  const std::string& version = metadata_of(file_, "version");
  if (metadata_of(file_, "kind") != kKind ||
      (version != kVersion && version != kVersionWithoutNames)) {
    refuse(path, fmt::format("expected \"{}\" of version {} or {}, found {} of version {}", kKind,
                             kVersionWithoutNames, kVersion, in_quotes(metadata_of(file_, "kind")),
                             in_quotes(metadata_of(file_, "version"))));
  }
  if (metadata_of(file_, "rule") != states::name_of(rule)) {
    refuse(path, fmt::format("it is the state of the rule {}, expected {}",
                             in_quotes(metadata_of(file_, "rule")), states::name_of(rule)));
  }
  info_ = {.rule = rule,
           .format = format_of(file_),
           .seed = number_of(file_, "seed", std::numeric_limits<std::uint64_t>::max()),
           .step = number_of(file_, "step", kMostSteps)};
  check_tensors(store);
  check_digest({store.staging(), to_size(StateStore::kStagingBytes)});
}

states::StateKind StateFile::kind_of(const StateStore& store, int parameter) const {
  states::StateKind kind = store.kind_of(parameter);
  kind.format = info_.format;
  return kind;
}

void StateFile::check_tensors(const StateStore& store) const {
  // The digest itself.
  std::size_t expected = 1;
  for (int p = 0; p < static_cast<int>(store.parameters().size()); ++p) {
    const states::StateKind kind = kind_of(store, p);
    for (const Plane plane : all_planes(kind)) {
      const auto spec = spec_of(store.parameters()[to_size(p)], plane, kind);
      const files::StoredTensor* found = file_.find(spec.name);
      ++expected;
      if (found != nullptr && found->type == spec.type && found->shape == spec.shape) continue;
      refuse(file_.path(),
             fmt::format("expected {} as {} of shape [{}], found {}: the state is that of other "
                         "parameters",
                         in_quotes(spec.name), files::name_of(spec.type), spec.shape.front(),
                         found == nullptr
                             ? std::string("none")
                             : fmt::format("{} bytes as {} in {} dimensions", found->bytes,
                                           files::name_of(found->type), found->shape.size())));
    }
  }
  const auto& tensors = file_.tensors();
  if (tensors.size() != expected || tensors.back().name != kDigestName ||
      tensors.back().bytes != kDigestBytes) {
    refuse(file_.path(),
           fmt::format("expected {} tensors with the digest of {} bytes as the last, found {} with "
                       "{} of {} bytes: the state is that of more parameters, or damaged",
                       expected, kDigestBytes, tensors.size(), in_quotes(tensors.back().name),
                       tensors.back().bytes));
  }
}

void StateFile::check_digest(std::span<std::byte> staging) const {
  Digest digest = digest_of(info_);
  const bool with_names = metadata_of(file_, "version") != kVersionWithoutNames;
  for (const files::StoredTensor& tensor : file_.tensors()) {
    if (&tensor == &file_.tensors().back()) break;
    if (with_names) add_plane(digest, tensor.name, tensor.type, tensor.shape);
    for (Bytes offset = 0; offset < tensor.bytes;) {
      const auto piece = staging.first(std::min(staging.size(), to_size(tensor.bytes - offset)));
      file_.read(tensor, offset, piece);
      digest.add(piece);
      offset += static_cast<Bytes>(piece.size());
    }
  }
  std::string stored(to_size(kDigestBytes), '\0');
  file_.read(file_.tensors().back(), 0, std::as_writable_bytes(std::span(stored)));
  if (stored != digest.hex()) {
    refuse(file_.path(), fmt::format("its digest says {}, its bytes have {}: the file is damaged, "
                                     "use another",
                                     in_quotes(stored), digest.hex()));
  }
}

void StateFile::read(Plane plane, const Parameter& parameter, const states::StateKind& kind,
                     std::int64_t first, std::int64_t count, void* to) const {
  file_.read(*file_.find(tensor_name(parameter.name, plane)), plane_bytes(plane, kind, first),
             {static_cast<std::byte*>(to), to_size(plane_bytes(plane, kind, count))});
}

void StateFile::load(StateStore& store) const {
  store.load(info_.format, [&](Plane plane, int p, std::int64_t first, std::int64_t n, void* to) {
    read(plane, store.parameters()[to_size(p)], kind_of(store, p), first, n, to);
  });
}

}  // namespace ebb::hybrid
