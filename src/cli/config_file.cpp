#include "cli/config_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "cli/misuse.h"
#include "cli/nearest.h"
#include "cli/words.h"
#include "ebb/error.h"

namespace ebb::cli {
namespace {

struct Entry {
  std::string key;
  std::string name;  // of the flag, without dashes
  const toml::node* value;
  std::string where;  // "--config run.toml, line 3"
};

std::string flag_name(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// In the order of the file, so that the first thing wrong is told first.
std::vector<Entry> entries_of(const toml::table& table, const std::string& source) {
  std::vector<std::pair<std::uint32_t, Entry>> found;
  for (const auto& [key, value] : table) {
    const auto line = static_cast<std::uint32_t>(key.source().begin.line);
    found.emplace_back(line, Entry{.key = std::string(key.str()),
                                   .name = flag_name(key.str()),
                                   .value = &value,
                                   .where = fmt::format("{}, line {}", source, line)});
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<Entry> entries;
  for (auto& [line, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

[[noreturn]] void refuse(const Entry& entry, const std::string& what) {
  throw ConfigError(fmt::format("{}: {} {}", entry.where, entry.key, what));
}

// As it would be written on the command line.
std::string word_of(const Entry& entry, const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* number = value.as_integer()) return fmt::to_string(number->get());
  if (const auto* number = value.as_floating_point()) return fmt::to_string(number->get());
  if (value.is_table()) {
    refuse(entry, "is a table; write every flag as a key of its own, without [sections]");
  }
  refuse(entry, "should be a text or a number, as on the command line");
}

std::vector<std::string> words_of(const Entry& entry, const CLI::Option& option) {
  const toml::array* list = entry.value->as_array();
  if (list == nullptr) return {word_of(entry, *entry.value)};
  if (option.get_items_expected_max() < 2) refuse(entry, "takes one value, not a list");
  std::vector<std::string> words;
  for (const toml::node& value : *list) words.push_back(word_of(entry, value));
  return words;
}

// The flag by its name, or by an alias.
template <class App>
auto find_flag(App& app, const std::string& name) {
  const auto options = app.get_options([&](const CLI::Option* o) { return o->check_lname(name); });
  return options.empty() ? nullptr : options.front();
}

// Whether the flag is one of the verb of that name, which is looked for when all verbs are there.
bool belongs_to(const CLI::App& verb, const std::string& other, const std::string& flag) {
  if (other.empty()) return false;
  const CLI::App* root = &verb;
  while (root->get_parent() != nullptr) root = root->get_parent();
  return find_flag(*root->get_subcommand(other), flag) != nullptr;
}

void give(CLI::Option& option, const Entry& entry) {
  if (const auto* answer = entry.value->as_boolean()) {
    if (option.get_expected_min() > 0) refuse(entry, "takes a value, found true or false");
    const bool takes_value = option.get_items_expected_max() > 0;
    // Where a value may follow, the flag alone is what true means.
    if (takes_value && !answer->get()) return;
    option.add_result(option.get_flag_value(entry.name, takes_value     ? ""
                                                        : answer->get() ? "true"
                                                                        : "false"));
    return;
  }
  if (option.get_items_expected_max() == 0) refuse(entry, "should be true or false");
  for (std::string& word : words_of(entry, option)) option.add_result(std::move(word));
}

void give_and_tell(CLI::Option& option, const Entry& entry) {
  try {
    give(option, entry);
    if (!option.empty()) option.run_callback();
  } catch (const ConfigError& error) {
    // A text of give()'s own says where already; one of the flag's begins with the flag.
    if (std::string_view(error.what()).starts_with(entry.where)) throw;
    throw ConfigError(fmt::format("{} ({})", error.what(), entry.where));
  } catch (const CLI::Error& error) {
    throw ConfigError(fmt::format("{}: {}", entry.where, error.what()));
  }
}

// Whether the command line says something that this flag would contradict.
bool is_overruled(const CLI::Option& option) {
  const auto& others = option.get_excludes();
  return !option.empty() || std::any_of(others.begin(), others.end(),
                                        [](const auto* other) { return !other->empty(); });
}

toml::table parse(const std::string& file, const std::string& source) {
  try {
    return toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    if (line == 0) {
      throw ConfigError(
          fmt::format("{}: this file cannot be read; give the path of a file of "
                      "settings (a key a flag, such as steps = 500)",
                      source));
    }
    throw ConfigError(
        fmt::format("{}, line {}: not TOML: {}. A line is key = value; texts stand in "
                    "quotes, lists in [ ]",
                    source, line, error.description()));
  }
}

}  // namespace

ConfigFlag::ConfigFlag(CLI::App& verb, std::string also)
    : verb_(&verb), also_(std::move(also)), file_(std::make_shared<std::string>()) {
  for (CLI::Option* option : verb.get_options()) {
    if (!option->get_required()) continue;
    required_.push_back(option->required(false));
    const bool several = option->get_items_expected_max() > 1;
    option->option_text(option->get_type_name() + (several ? " ..." : "") + " REQUIRED");
  }
  verb.add_option("--config", *file_,
                  "A TOML file of flags, a key each, such as steps = 500 (docs/runs.md); what the "
                  "command line says wins")
      ->type_name(kFileType);
}

void ConfigFlag::apply() const {
  if (!file_->empty()) apply(*file_, "--config " + *file_);
}

void ConfigFlag::apply(const std::string& file, const std::string& source) const {
  const toml::table table = parse(file, source);
  // Of flags of the file that exclude each other the later one is refused below, as both are given.
  std::vector<std::pair<CLI::Option*, Entry>> wanted;
  for (const Entry& entry : entries_of(table, source)) {
    CLI::Option* option = find_flag(*verb_, entry.name);
    if (option == nullptr || option == verb_->get_help_ptr() || entry.name == "config") {
      if (option == nullptr && belongs_to(*verb_, also_, entry.name)) continue;
      throw ConfigError(fmt::format("{}: {} is no flag of '{}' that a file can have{}", entry.where,
                                    entry.key, verb_->get_name(),
                                    did_you_mean(entry.name, flag_names(*verb_))));
    }
    if (!is_overruled(*option)) wanted.emplace_back(option, entry);
  }
  for (const auto& [option, entry] : wanted) {
    if (!option->empty()) refuse(entry, "is given twice, under two names; give it once");
    give_and_tell(*option, entry);
  }
}

bool ConfigFlag::has_required(const CLI::Option& but) const {
  return std::none_of(required_.begin(), required_.end(),
                      [&](const auto* o) { return o != &but && o->empty(); });
}

void ConfigFlag::check_required() const {
  for (const CLI::Option* option : required_) {
    if (option->empty()) throw CLI::RequiredError(option->get_name());
  }
}

}  // namespace ebb::cli
