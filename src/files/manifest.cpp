#include "files/manifest.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/json.h"
#include "ebb/error.h"
#include "io/text_file.h"

namespace ebb::files {
namespace {

constexpr std::string_view kFormat = "ebb-checkpoint";
constexpr Bytes kMaxManifestBytes = 16 * kMiB;

bool is_digest(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The same for equal manifests, however their JSON is written. A name has no line breaks.
std::string digest_of(const Manifest& manifest) {
  std::string text = fmt::format("{} {} {}\n", kFormat, manifest.version, manifest.step);
  for (const ManifestFile& file : manifest.files) {
    text += fmt::format("{} {} {}\n", file.digest, file.bytes, file.name);
  }
  Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

class ManifestParser {
 public:
  explicit ManifestParser(const std::filesystem::path& path) : path_(path) {}

  Manifest parse(const std::string& json) const {
    const Json root = parse_json(json);
    expect(root.is_object(), "an object", "something else");
    if (member(root, "format") != kFormat) expect(false, "the format ebb-checkpoint", "another");
    Manifest manifest;
    manifest.version = whole_number(root, "version");
    expect(manifest.version >= 1 && manifest.version <= kManifestVersion,
           fmt::format("version 1 to {}", kManifestVersion),
           fmt::format("version {}, of another Ebb; read it with that one", manifest.version));
    manifest.step = whole_number(root, "step");
    const Json& files = member(root, "files");
    expect(files.is_array(), "a list of files", "something else");
    std::set<std::string> names;
    for (const Json& entry : files) {
      manifest.files.push_back(file(entry));
      const std::string& name = manifest.files.back().name;
      expect(names.insert(name).second, "each file once", fmt::format("'{}' twice", name));
    }
    if (manifest.version >= 2) {
      const std::string stored = text(root, "xxh3");
      const std::string found = digest_of(manifest);
      expect(is_digest(stored), "a digest of 32 hex digits", "something else");
      expect(stored == found, fmt::format("what has the XXH3 digest {}", stored),
             fmt::format("what has {}: it was changed after it was saved", found));
    }
    return manifest;
  }

 private:
  void expect(bool good, std::string_view expected, std::string_view found) const {
    if (good) return;
    throw FormatError(fmt::format(
        "'{}' is not the manifest of a checkpoint: expected {}, found {}. Resume from an "
        "older checkpoint: move this folder away and use --resume again.",
        path_.string(), expected, found));
  }

  Json parse_json(const std::string& text) const {
    try {
      return ebb::parse_json(text, "a text");
    } catch (const FormatError& error) {
      expect(false, "JSON", error.what());
    }
    return {};
  }

  const Json& member(const Json& object, const char* name) const {
    const auto found = object.find(name);
    expect(found != object.end(), fmt::format("'{}'", name), "none");
    return *found;
  }

  std::int64_t whole_number(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    const bool good = value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
    expect(good, fmt::format("'{}' to be a whole number from 0", name), "something else");
    return value.get<std::int64_t>();
  }

  std::string text(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    expect(value.is_string(), fmt::format("'{}' to be a text", name), "something else");
    return value.get<std::string>();
  }

  ManifestFile file(const Json& entry) const {
    expect(entry.is_object(), "an object for each file", "something else");
    ManifestFile file{text(entry, "name"), whole_number(entry, "bytes"), text(entry, "xxh3")};
    // A manifest must not lead the reader out of its folder.
    expect(is_plain_name(file.name), "a plain file name", "a path");
    // It is shown where it differs.
    expect(is_digest(file.digest), "a digest of 32 hex digits", "something else");
    return file;
  }

  const std::filesystem::path& path_;
};

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && name != kManifestName &&
         name != kDraftName && std::all_of(name.begin(), name.end(), [](char c) {
           return c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
         });
}

std::string format_manifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  }
  Json root = {{"format", kFormat},
               {"version", manifest.version},
               {"step", manifest.step},
               {"files", std::move(files)}};
  if (manifest.version >= 2) root["xxh3"] = digest_of(manifest);
  return root.dump(2) + "\n";
}

Manifest read_manifest(io::FileSystem& files, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  return ManifestParser(path).parse(io::read_text(files, path, kMaxManifestBytes));
}

}  // namespace ebb::files
