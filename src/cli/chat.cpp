#include <cstdio>

#include <fmt/format.h>

#include "cli/config_file.h"
#include "cli/conversation.h"
#include "cli/input_lines.h"
#include "cli/interrupts.h"
#include "cli/sampling_flags.h"
#include "cli/verbs.h"
#include "ebb/error.h"
#include "ebb/generator.h"

namespace ebb::cli {
namespace {

struct ChatRequest {
  GenerateOptions options;
  std::int64_t positions = 0;
};

Model open(const GenerateOptions& o) {
  Model model = Model::open(
      o.model, {.tokenizer = o.tokenizer, .verify = o.verify, .host_memory = o.host_memory});
  if (!model.has_chat_template()) {
    throw ConfigError(
        fmt::format("--model {}: it brings no chat template (chat_template.jinja, or chat_template "
                    "in tokenizer_config.json), so nobody knows how it was taught to talk; give "
                    "--tokenizer FOLDER with one, or let it continue a text with ebb generate",
                    model.name()));
  }
  return model;
}

int run(const ChatRequest& request) {
  const GenerateOptions& o = request.options;
  const Model model = open(o);
  // Before the weights are read, which takes minutes.
  const std::string settings = explain_sampling(model, o);
  StopOnInterrupt interrupts(StopOnInterrupt::Second::is_like_the_first);
  const std::stop_token loading = interrupts.begin();
  try {
    Generator generator(model,
                        {.positions = request.positions,
                         .dtype = o.dtype,
                         .device = o.device,
                         .threads = o.threads,
                         .device_memory = o.device_memory,
                         .host_memory = o.host_memory,
                         .placement = o.placement,
                         .reuse = PrefixReuse::all},
                        loading);
    Conversation conversation(generator, o, o.system, interrupts);
    InputLines lines;
    fmt::print(stderr, "{}\n{} positions. /help lists the commands, Ctrl-D ends.\n", settings,
               generator.positions());
    std::string line;
    while (true) {
      const InputLines::Got got = lines.next(line);
      if (got == InputLines::Got::end) break;
      if (got == InputLines::Got::interrupt) {
        fmt::print(stderr, "\n(Ctrl-D ends)\n");
      } else if (!conversation.take(line)) {
        return 0;
      }
    }
    // The shell's prompt begins a line of its own.
    if (lines.terminal()) fmt::print(stderr, "\n");
  } catch (const Cancelled&) {
    fmt::print(stderr, "ebb: interrupted before the first message\n");
    return kInterrupted;
  }
  return 0;
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("chat", "Talk to a model, with history and /commands");
  auto request = std::make_shared<ChatRequest>();
  add_model(*verb, request->options);
  verb->add_option("--system", request->options.system, "Instructions before the conversation");
  verb->add_option("--positions", request->positions,
                   "Tokens that the conversation may have; 0: as many as the model knows, 4096 at "
                   "most")
      ->capture_default_str();
  add_sampling(*verb, request->options);
  const ConfigFlag config(*verb);
  verb->callback([request, config, &action] {
    config.apply();
    config.check_required();
    action = [request] { return run(*request); };
  });
}

}  // namespace ebb::cli
