// What this machine is.
#pragma once

#include <string>

namespace ebb {

// The device that would be used, as a few lines of text. `device`: cpu, cuda or auto.
std::string probe(const std::string& device = "auto");

// The speeds that plans are made with, as JSON that `ebb inspect` reads.
std::string probe_json(const std::string& device = "auto");

}  // namespace ebb
