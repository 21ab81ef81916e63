// The flags that `train` and `plan` share.
#pragma once

#include <memory>

#include <CLI/CLI.hpp>

#include "ebb/train.h"

namespace ebb::cli {

// The options that the flags fill; read them after parsing.
std::shared_ptr<TrainOptions> add_train_flags(CLI::App& verb);

// A flag whose value is a number of bytes, such as 10GiB.
CLI::Option* add_bytes(CLI::App& verb, const std::string& flag, std::optional<Bytes>& value,
                       const std::string& help);

CLI::Option* add_seed(CLI::App& verb, std::uint64_t& value, const std::string& help);

}  // namespace ebb::cli
