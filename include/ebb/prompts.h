// Prompts and conversations, and the files that people keep them in.
#pragma once

#include <string>
#include <vector>

namespace ebb {

struct ChatMessage {
  std::string role;  // as the chat template knows them: "system", "user", "assistant"
  std::string content;
};

// One of both: a text to continue, or a conversation to answer.
struct Prompt {
  std::string text;
  std::vector<ChatMessage> messages;
};

// One prompt: the whole file, less one newline at its end. "-": the standard input. Throws IoError;
// FormatError where it is larger than 64 MiB, here and below.
std::string read_prompt(const std::string& file);

// One prompt a line; or, where the first line that is not blank begins with "{", a JSON object a
// line with "prompt" or "messages". Blank lines are passed over. "-": the standard input. Throws
// FormatError that names the line, and where there is no prompt.
std::vector<Prompt> read_prompts(const std::string& file);

// A conversation as one line of JSONL, {"messages": [...]}, as training reads them. Saving replaces
// the file atomically; loading takes the first line of a file of several.
void save_messages(const std::string& file, const std::vector<ChatMessage>& messages);
std::vector<ChatMessage> load_messages(const std::string& file);

}  // namespace ebb
