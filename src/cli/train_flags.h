// The flags that `train` and `plan` share.
#pragma once

#include <memory>

#include <CLI/CLI.hpp>

#include "ebb/train.h"

namespace ebb::cli {

// The options that the flags fill; read them after parsing. CLI11 keeps references into them, so
// whatever keeps `verb` must keep them: a verb's action does.
std::shared_ptr<TrainOptions> add_train_flags(CLI::App& verb);

// A flag whose value is a number of bytes, such as 10GiB. `value` must outlive the parsing and
// stays empty where the flag is not given. What is no number of bytes throws ConfigError.
CLI::Option* add_bytes(CLI::App& verb, const std::string& flag, std::optional<Bytes>& value,
                       const std::string& help);

// --seed, alike for every verb that draws random numbers.
CLI::Option* add_seed(CLI::App& verb, std::uint64_t& value, const std::string& help);

}  // namespace ebb::cli
