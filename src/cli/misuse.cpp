#include "cli/misuse.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/nearest.h"

namespace ebb::cli {
namespace {

// "train, plan and probe"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

// CLI11 counts the values of a flag, wherever they stood, and says only how many it expected.
std::string repetition_in(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const int most = option->get_items_expected_max();
    const std::vector<std::string>& values = option->results();
    if (most < 1 || static_cast<int>(values.size()) <= most) continue;
    return fmt::format("{} is given {} times ({}); give it once", option->get_name(), values.size(),
                       fmt::join(values, ", "));
  }
  return {};
}

// `command` is the app's, as it is typed: "ebb train".
std::string unknown_flag(const CLI::App& app, std::string_view word, const std::string& command) {
  const std::string_view flag = word.substr(0, word.find('='));
  const std::string_view name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  return fmt::format("{}: '{}' has no such flag{}", flag, command,
                     did_you_mean(name, flag_names(app), "--"));
}

std::string unknown_verb(const std::string& word, const std::vector<std::string>& verbs,
                         const std::string& command) {
  return fmt::format("'{}' is not a verb{}\nThe verbs of '{}' are {}.", word,
                     did_you_mean(word, verbs), command, listed(verbs));
}

}  // namespace

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

// What is not known comes before what is missing: of a misspelt flag CLI11 would say that the right
// one is required.
std::string describe_misuse(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* at = app;
  std::string command = app->get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  std::string text = error.what();
  const std::vector<std::string> words = app->remaining(true);
  const std::vector<std::string> verbs = verb_names(*at);
  if (const std::string repetition = repetition_in(*at); !repetition.empty()) {
    text = repetition;
  } else if (!words.empty() && words.front().starts_with('-')) {
    text = unknown_flag(*at, words.front(), command);
  } else if (!words.empty() && !verbs.empty()) {
    text = unknown_verb(words.front(), verbs, command);
  } else if (!words.empty()) {
    text = fmt::format("'{}' belongs to no flag", words.front());
  }
  return fmt::format("ebb: {}\nRun '{} --help' to see what there is.\n", text, command);
}

}  // namespace ebb::cli
