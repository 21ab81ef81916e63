// Flags whose values are words: parsed into the enums of the options by the API's own table, so
// that no word is written twice. What is none of them throws ConfigError, which passes through
// CLI11 as it is and lists the words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ebb/types.h"

namespace ebb::cli {

// The names of what a flag takes, where that is a path: of something that is there, and of a file
// that is written. Settings that are kept have such paths from the root on.
inline constexpr const char* kPathType = "PATH";
inline constexpr const char* kFileType = "FILE";
inline constexpr const char* kDiskType = "PATH[:BYTES]";

// Help shows the word of what `value` holds now. `value` must outlive the parsing, here and below.
template <class Enum>
CLI::Option* add_word(CLI::App& verb, const std::string& flag, Enum& value,
                      const std::string& help) {
  return verb
      .add_option_function<std::string>(
          flag, [&value, flag](const std::string& word) { value = parse_word<Enum>(word, flag); },
          help)
      ->default_str(std::string(to_word(value)));
}

// Stays empty where the flag is not given: help has no default to show.
template <class Enum>
CLI::Option* add_word(CLI::App& verb, const std::string& flag, std::optional<Enum>& value,
                      const std::string& help) {
  return verb.add_option_function<std::string>(
      flag, [&value, flag](const std::string& word) { value = parse_word<Enum>(word, flag); },
      help);
}

// One word or several, in the order given; `values` stays empty where the flag is not given.
template <class Enum>
CLI::Option* add_words(CLI::App& verb, const std::string& flag, std::vector<Enum>& values,
                       const std::string& help) {
  return verb.add_option_function<std::vector<std::string>>(
      flag,
      [&values, flag](const std::vector<std::string>& words) {
        for (const std::string& word : words) values.push_back(parse_word<Enum>(word, flag));
      },
      help);
}

// A choice of blocks by number or word. `flags` may have aliases behind a comma; errors name the
// first.
inline CLI::Option* add_blocks(CLI::App& verb, const std::string& flags, Blocks& value,
                               const BlockWords& words, const std::string& help) {
  const std::string flag = flags.substr(0, flags.find(','));
  return verb
      .add_option_function<std::string>(
          flags,
          [&value, flag, words](const std::string& word) {
            value = parse_blocks(word, flag, words);
          },
          help)
      ->default_str(to_word(value, words));
}

// --disk, for every verb that has it: PATH or PATH:BYTES, one or several.
inline CLI::Option* add_disks(CLI::App& verb, std::vector<DiskFolder>& folders,
                              const std::string& help) {
  return verb
      .add_option_function<std::vector<std::string>>(
          "--disk",
          [&folders](const std::vector<std::string>& words) {
            for (const std::string& word : words) folders.push_back(parse_disk_folder(word));
          },
          help)
      ->type_name(kDiskType);
}

}  // namespace ebb::cli
