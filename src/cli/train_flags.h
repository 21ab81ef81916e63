// The flags that `train` and `plan` share, and those of them that other verbs have, too.
#pragma once

#include <memory>

#include <CLI/CLI.hpp>

#include "ebb/train.h"

namespace ebb::cli {

// The flags fill `options`; read them after parsing. CLI11 keeps references into them, so whatever
// keeps `verb` must keep them: a verb's action does.
void add_train_flags(CLI::App& verb, TrainOptions& options);

// A flag whose value is a number of bytes, such as 10GiB. `value` must outlive the parsing and
// stays empty where the flag is not given. What is no number of bytes throws ConfigError.
CLI::Option* add_bytes(CLI::App& verb, const std::string& flag, std::optional<Bytes>& value,
                       const std::string& help);

// --seed, alike for every verb that draws random numbers.
CLI::Option* add_seed(CLI::App& verb, std::uint64_t& value, const std::string& help);

// A number of blocks without words of its own; automatic where the flag is not given.
CLI::Option* add_count(CLI::App& verb, const std::string& flag, Blocks& value,
                       const std::string& help);

// --machine, for plans. Empty where the flag is not given: this machine.
std::shared_ptr<std::string> add_machine(CLI::App& verb);

}  // namespace ebb::cli
