#include "ebb/prompts.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/text_file.h"

namespace ebb {
namespace {

constexpr Bytes kMostBytes = 64 * kMiB;
constexpr std::string_view kStandardInput = "-";

std::string read_standard_input() {
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw IoError(fmt::format("cannot read the standard input: {}",
                                std::generic_category().message(errno)));
    }
    text.append(piece.data(), to_size(got));
    if (std::ssize(text) > kMostBytes) {
      throw FormatError(
          fmt::format("the standard input has more than {} bytes; give less, or a "
                      "file of the right kind",
                      kMostBytes));
    }
  }
}

std::string read_all(const std::string& file) {
  if (file == kStandardInput) return read_standard_input();
  io::PosixFileSystem files;
  return io::read_text(files, file, kMostBytes);
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// A line of a file, for errors.
struct Line {
  std::string_view text;
  std::string where;  // "prompts.jsonl:3"
};

// Those that are not blank.
std::vector<Line> lines_of(std::string_view text, const std::string& file) {
  const std::string name = file == kStandardInput ? "standard input" : file;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // what some editors begin with
  std::vector<Line> lines;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = without_line_end(text.substr(0, end));
    if (!blank(line)) lines.push_back({line, fmt::format("{}:{}", name, number)});
    text.remove_prefix(end);
  }
  return lines;
}

std::string text_in(const Json& object, const char* key, const std::string& where) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || value == object.end() || !value->is_string()) {
    throw FormatError(fmt::format("{}: expected an object with a string \"{}\", found {}", where,
                                  key, in_quotes(object.dump())));
  }
  return value->get<std::string>();
}

std::vector<ChatMessage> messages_in(const Json& object, const std::string& where) {
  const Json& list = object.at("messages");
  if (!list.is_array() || list.empty()) {
    throw FormatError(
        fmt::format("{}: \"messages\" should be a list of {{\"role\", \"content\"}} "
                    "objects, found {}",
                    where, in_quotes(list.dump())));
  }
  std::vector<ChatMessage> messages;
  for (const Json& message : list) {
    const std::string at = fmt::format("{}, message {}", where, messages.size() + 1);
    messages.push_back({text_in(message, "role", at), text_in(message, "content", at)});
  }
  return messages;
}

Prompt prompt_in(const Line& line) {
  const Json object = parse_json(line.text, line.where);
  if (object.is_object() && object.contains("messages")) {
    return {.text = {}, .messages = messages_in(object, line.where)};
  }
  if (!object.is_object() || !object.contains("prompt")) {
    throw FormatError(
        fmt::format("{}: expected an object with \"prompt\" or \"messages\", found {}", line.where,
                    in_quotes(line.text)));
  }
  return {.text = text_in(object, "prompt", line.where), .messages = {}};
}

}  // namespace

std::string read_prompt(const std::string& file) {
  return std::string(without_line_end(read_all(file)));
}

std::vector<Prompt> read_prompts(const std::string& file) {
  const std::string text = read_all(file);
  const std::vector<Line> lines = lines_of(text, file);
  if (lines.empty()) {
    throw FormatError(fmt::format("--prompts {}: expected a prompt a line, found none", file));
  }
  const bool json = lines.front().text.starts_with('{');
  std::vector<Prompt> prompts;
  for (const Line& line : lines) {
    prompts.push_back(json ? prompt_in(line)
                           : Prompt{.text = std::string(line.text), .messages = {}});
  }
  return prompts;
}

void save_messages(const std::string& file, const std::vector<ChatMessage>& messages) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  io::PosixFileSystem files;
  // A message from a terminal may be any bytes.
  io::write_text_atomically(
      files, file,
      Json{{"messages", list}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<ChatMessage> load_messages(const std::string& file) {
  const std::string text = read_all(file);
  const std::vector<Line> lines = lines_of(text, file);
  if (lines.empty())
    throw FormatError(fmt::format("{}: expected a conversation, found none", file));
  const Json object = parse_json(lines.front().text, lines.front().where);
  if (!object.is_object() || !object.contains("messages")) {
    throw FormatError(fmt::format("{}: expected an object with \"messages\", found {}",
                                  lines.front().where, in_quotes(lines.front().text)));
  }
  return messages_in(object, lines.front().where);
}

}  // namespace ebb
