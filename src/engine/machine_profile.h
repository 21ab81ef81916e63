// Where profiles of machines come from: those that ship, files, and the one that `ebb probe` kept
// of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/runtime.h"
#include "io/file_system.h"

namespace ebb::engine {

// `machine` is the path of a profile or the name of a machine that Ebb knows. Throws ConfigError
// that lists those, FormatError for a file that is no profile.
plan::Profile find_machine(io::FileSystem& files, const std::string& machine);

// What a profile was measured on, as far as speeds depend on it: another fingerprint makes it
// stale.
Json fingerprint(Runtime& runtime);

// Where this user's profile of the device is kept: $XDG_CACHE_HOME/ebb or ~/.cache/ebb. Nothing
// where there is neither.
std::optional<std::filesystem::path> kept_profile_path(const std::string& device);

// A file holds the profile, the fingerprint and more that was measured.
inline constexpr const char* kFingerprintField = "fingerprint";

// Gives the runtime the speeds of a profile: of `path` where one is given (and then whatever
// machine it is of), else the kept one if this is its machine. Limits stay this machine's. Returns
// one line that says which speeds plans are made with, and how to have better ones.
std::string load_profile(io::FileSystem& files, Runtime& runtime, const std::string& path);

}  // namespace ebb::engine
