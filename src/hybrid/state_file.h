// The state of an optimizer as one safetensors file. What is in it does not depend on where the
// state lay or how it was cut:
//
//   NAME.weight, NAME.low, NAME.first, NAME.second, NAME.scales   the planes of each parameter
//   digest                                                        of all planes, their names, types
//                                                                 and order, and the metadata
//
// and as metadata the rule, the format, the seed, the step and the version. Files of version 1,
// whose digest does not know the names, are read too.
#pragma once

#include <cstdint>
#include <filesystem>

#include "files/safetensors.h"
#include "hybrid/state_store.h"
#include "io/file_system.h"
#include "states/rules.h"

namespace ebb::hybrid {

// Far beyond any run, and far from where step arithmetic could overflow.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

struct StateInfo {
  states::Rule rule;
  kernels::StateFormat format = kernels::StateFormat::exact;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

// Throws ConfigError where a parameter's name could not be written.
void check_names(const StateStore& store);

// Writes `path`.partial, syncs and renames: `path` is what it was, or all of the new file. Throws
// IoError, and removes the partial file. Lanes must be empty.
void save_state(io::FileSystem& files, const std::filesystem::path& path, StateStore& store,
                const StateInfo& info);

// A file whose header was held against the store and whose digest is right. Throws FormatError that
// names the file, what was expected and found.
class StateFile {
 public:
  // Reads the whole file once, for its digest, through the store's staging.
  StateFile(io::FileSystem& files, const std::filesystem::path& path, const StateStore& store,
            const states::Rule& rule);

  const StateInfo& info() const { return info_; }
  // Writes all of it into the store, whose format may be another. What throws here leaves the store
  // half written: checks come before, in the constructor.
  void load(StateStore& store) const;

 private:
  void check_tensors(const StateStore& store) const;
  void check_digest(std::span<std::byte> staging) const;
  // The parameter's kind, in the file's format.
  states::StateKind kind_of(const StateStore& store, int parameter) const;
  void read(Plane plane, const Parameter& parameter, const states::StateKind& kind,
            std::int64_t first, std::int64_t count, void* to) const;

  files::SafetensorsReader file_;
  StateInfo info_;
};

}  // namespace ebb::hybrid
