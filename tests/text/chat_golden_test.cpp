// Chat templates against what transformers renders; tools/golden/make_chat.py made the files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "ebb/error.h"
#include "paths.h"
#include "text/chat/chat_template.h"
#include "text/chat/evaluator.h"
#include "text/chat/parser.h"
#include "text/chat/printing.h"

namespace ebb::text {
namespace {

const std::filesystem::path kFolder = golden_folder("chat");

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json read_json(const std::string& name) { return parse_json(read(kFolder / name), name); }

// The text, or the error with "error: " before it.
template <class Render>
std::string outcome(const Render& render) {
  try {
    return render();
  } catch (const FormatError& error) {
    return std::string("error: ") + error.what();
  }
}

void expect_same(const Json& golden, const std::string& found, const std::string& what) {
  if (golden.contains("text")) {
    EXPECT_EQ(golden["text"].get<std::string>(), found) << what;
  } else if (golden.contains("refusal")) {
    EXPECT_TRUE(found.starts_with("error: ") &&
                found.ends_with(": " + golden["refusal"].get<std::string>()))
        << what << "\nexpected the refusal " << golden["refusal"] << "\nfound " << found;
  } else {
    EXPECT_TRUE(found.starts_with("error: "))
        << what << "\nexpected an error, " << golden["error"] << "\nfound " << found;
  }
}

std::string render_all(const jinja::Template& parsed, const Json& variables) {
  std::vector<std::pair<std::string, jinja::Value>> values;
  for (const auto& [name, value] : variables.items())
    values.emplace_back(name, jinja::from_json(value));
  return jinja::render(parsed, values, "here", RenderLimits{});
}

TEST(ChatGolden, TemplatesRenderAsTransformersDoes) {
  const Json cases = read_json("conversations.json");
  const Json golden = read_json("rendered.json");
  const auto tokens = cases["tokens"].get<std::map<std::string, std::string>>();
  int count = 0;
  for (const auto& [name, results] : golden.items()) {
    const std::string source = read(kFolder / "templates" / (name + ".jinja"));
    const ChatTemplate chat(source, name);
    const auto parsed = jinja::parse(source, name);
    std::size_t index = 0;
    for (const auto& [title, messages] : cases["conversations"].items()) {
      const Json& expected = results[index++];
      for (std::size_t i = 0; i < cases["settings"].size(); ++i) {
        const Json& settings = cases["settings"][i];
        const bool answer_next = settings["add_generation_prompt"].get<bool>();
        const std::string what = fmt::format("{}, '{}', settings {}", name, title, i);
        Json variables = cases["tokens"];
        variables.update(settings);
        variables["messages"] = messages;
        const std::string found = outcome([&] {
          return settings.contains("tools") ? render_all(*parsed, variables)
                                            : chat.render(messages, tokens, answer_next);
        });
        // Reasoning is given its names before the template runs, which the plain way does not do.
        if (settings.contains("tools") && title.starts_with("thinking")) continue;
        expect_same(expected[i], found, what);
        ++count;
      }
    }
  }
  EXPECT_GE(count, 15 * 13 * 2);
}

TEST(ChatGolden, SnippetsRenderAsJinjaDoes) {
  const Json golden = read_json("snippets.json");
  for (const Json& snippet : golden["snippets"]) {
    const auto source = snippet["template"].get<std::string>();
    const std::string found =
        outcome([&] { return render_all(*jinja::parse(source, "here"), golden["variables"]); });
    expect_same(snippet, found, source);
  }
  EXPECT_GE(golden["snippets"].size(), 600u);
}

}  // namespace
}  // namespace ebb::text
