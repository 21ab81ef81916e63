// Flags from a file: TOML, one key a flag. What the command line gives wins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ebb::cli {

// Lets a verb take its flags from a file, too. What is required may then be in either.
class ConfigFlag {
 public:
  // Adds --config to a verb that has all its other flags. `also`: the name of a verb whose flags
  // may be in the file as well and mean nothing here, as a plan's file may be that of a training.
  explicit ConfigFlag(CLI::App& verb, std::string also = "");

  // To be called first by the verb's callback: gives the flags of the file to the options that the
  // command line left alone. Throws ConfigError that names the file and the line.
  void apply() const;
  // The same of another file; `source` begins the errors: "--resume run/settings.toml".
  void apply(const std::string& file, const std::string& source) const;
  // Whether all that is required is there, but for an option that the caller knows otherwise.
  bool has_required(const CLI::Option& but) const;
  // Throws CLI::RequiredError where something that is required is in neither.
  void check_required() const;

 private:
  CLI::App* verb_;
  std::string also_;
  std::vector<CLI::Option*> required_;
  std::shared_ptr<std::string> file_;  // CLI11 keeps a reference into it
};

}  // namespace ebb::cli
