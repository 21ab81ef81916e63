// The functions of C linkage over the public API. No exception leaves them: a failure is a return
// value other than 0 (or null), and what it was is kept for the thread that saw it.
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/json_options.h"
#include "api/json_results.h"
#include "base/json.h"
#include "ebb/api_c.h"
#include "ebb/error.h"
#include "ebb/generator.h"
#include "ebb/inspect.h"
#include "ebb/trainer.h"

struct ebb_api_stop {
  std::stop_source source;
};

struct ebb_api_model {
  ebb::Model model;
};

struct ebb_api_generator {
  ebb::Generator generator;
};

namespace ebb::api {
namespace {

// Good until the next failure on the same thread.
thread_local std::string last_failure;

std::string text_of(const Json& json) {
  // A text of a model's may end within a character.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// 0 or 1, as the functions return it.
template <class Call>
int told(Call call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_failure = text_of(describe_error(error));
  } catch (...) {
    last_failure = R"({"kind": "Error", "text": "a failure of an unknown kind"})";
  }
  return 1;
}

// Gives what `make` returns to the caller.
template <class Make>
int given(char** result, Make make) {
  return told([&] {
    if (result == nullptr) throw ConfigError("result is a null pointer");
    const std::string text = text_of(make());
    auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    *result = copy;
  });
}

template <class Made, class Make>
Made* made(Make make) {
  Made* object = nullptr;
  told([&] { object = make(); });
  return object;
}

template <class Object>
Object& at(Object* object) {
  if (object == nullptr) throw ConfigError("an object that a call needs is a null pointer");
  return *object;
}

Json json_of(const char* text, std::string_view what) { return parse_json(&at(text), what); }

std::stop_token token_of(const ebb_api_stop* stop) {
  return stop == nullptr ? std::stop_token() : stop->source.get_token();
}

// The caller's listener, of which a wish to stop is remembered.
class Listener {
 public:
  Listener(ebb_api_listener listener, void* context) : listener_(listener), context_(context) {}

  // Whether the work may go on.
  bool tell(const char* kind, const std::string& value) {
    if (listener_ != nullptr && listener_(context_, kind, value.c_str()) != 0) stop_ = true;
    return !stop_;
  }

  bool wants_stop() const { return stop_; }

 private:
  ebb_api_listener listener_;
  void* context_;
  bool stop_ = false;
};

class TrainListener final : public TrainObserver {
 public:
  explicit TrainListener(Listener listener) : listener_(listener) {}

  void note(const std::string& text) override { listener_.tell("note", text_of(text)); }
  void started() override { listener_.tell("started", ""); }
  void step(const StepReport& report) override { listener_.tell("step", text_of(to_json(report))); }
  bool stop_requested() override { return !listener_.tell("asked", ""); }

 private:
  Listener listener_;
};

// A stop of its own, as an evaluation ends by a token alone.
class EvaluateListener final : public EvaluateObserver {
 public:
  explicit EvaluateListener(Listener listener) : listener_(listener) {}

  void note(const std::string& text) override { tell("note", text_of(text)); }
  void batch(const EvaluateReport& report) override { tell("batch", text_of(to_json(report))); }
  std::stop_source& stop() { return stop_; }

 private:
  void tell(const char* kind, const std::string& value) {
    if (!listener_.tell(kind, value)) stop_.request_stop();
  }

  Listener listener_;
  std::stop_source stop_;
};

Json convert(const Model& model, const Json& request) {
  if (request.is_object() && request.size() == 1) {
    const std::string& kind = request.begin().key();
    const Json& value = request.begin().value();
    if (kind == "encode" && value.is_string()) return model.encode(value.get<std::string>());
    if (kind == "decode") return model.decode(token_ids(value));
    if (kind == "render_chat") return model.render_chat(chat_messages(value));
    if (kind == "encode_chat") return model.encode_chat(chat_messages(value));
  }
  throw ConfigError(
      "expected one of encode (a text), decode (ids), render_chat and encode_chat "
      "(messages)");
}

GenerateSummary generate(Generator& generator, const TextRequest& request, Listener& listener,
                         std::stop_token stop) {
  const TextSink sink = [&](std::string_view piece) {
    return listener.tell("text", text_of(std::string(piece)));
  };
  if (request.prompt) return generator.generate(*request.prompt, request.sampling, sink, stop);
  if (request.ids) return generator.generate(*request.ids, request.sampling, sink, stop);
  return generator.answer(*request.messages, request.sampling, sink, stop);
}

}  // namespace
}  // namespace ebb::api

// At one address for as long as it lives: the trainer refers to the listener.
struct ebb_api_trainer {
  ebb_api_trainer(const ebb::TrainOptions& options, ebb_api_listener told_, void* context,
                  std::stop_token stop)
      : listener(ebb::api::Listener(told_, context)),
        trainer(options, &listener, std::move(stop)) {}

  ebb::api::TrainListener listener;
  ebb::Trainer trainer;
};

using ebb::api::at;
using ebb::api::given;
using ebb::api::json_of;
using ebb::api::Listener;
using ebb::api::made;
using ebb::api::to_json;
using ebb::api::token_of;

extern "C" {

int ebb_api_version(void) { return EBB_API_VERSION; }

const char* ebb_api_error(void) { return ebb::api::last_failure.c_str(); }

void ebb_api_free(char* result) { std::free(result); }

ebb_api_stop* ebb_api_stop_create(void) {
  return made<ebb_api_stop>([] { return new ebb_api_stop; });
}

void ebb_api_stop_request(ebb_api_stop* stop) {
  if (stop != nullptr) stop->source.request_stop();
}

void ebb_api_stop_destroy(ebb_api_stop* stop) { delete stop; }

int ebb_api_plan(const char* options, const char* machine, char** result) {
  return given(result, [&] {
    return to_json(
        ebb::make_plan(ebb::api::train_options(json_of(options, "options")), &at(machine)));
  });
}

int ebb_api_explain_generation(const char* options, long long prompt_tokens, const char* machine,
                               char** result) {
  return given(result, [&] {
    return ebb::Json(ebb::explain_generation(
        ebb::api::generate_options(json_of(options, "options")), prompt_tokens, &at(machine)));
  });
}

int ebb_api_evaluate(const char* options, ebb_api_listener listener, void* context,
                     ebb_api_stop* stop, char** result) {
  return given(result, [&] {
    ebb::api::EvaluateListener observer(Listener(listener, context));
    const std::stop_callback either(token_of(stop), [&] { observer.stop().request_stop(); });
    return to_json(ebb::evaluate(ebb::api::evaluate_options(json_of(options, "options")), observer,
                                 observer.stop().get_token()));
  });
}

int ebb_api_inspect(const char* path, char** result) {
  return given(
      result, [&] { return ebb::parse_json(ebb::inspect(&at(path)).json, "what inspect() says"); });
}

ebb_api_model* ebb_api_model_open(const char* model, const char* options) {
  return made<ebb_api_model>([&] {
    return new ebb_api_model{
        ebb::Model::open(&at(model), ebb::api::model_options(json_of(options, "options")))};
  });
}

void ebb_api_model_destroy(ebb_api_model* model) { delete model; }

int ebb_api_model_describe(ebb_api_model* model, char** result) {
  return given(result, [&] { return ebb::api::describe(at(model).model); });
}

int ebb_api_model_convert(ebb_api_model* model, const char* request, char** result) {
  return given(result,
               [&] { return ebb::api::convert(at(model).model, json_of(request, "the request")); });
}

ebb_api_trainer* ebb_api_trainer_create(const char* options, ebb_api_listener listener,
                                        void* context, ebb_api_stop* stop) {
  return made<ebb_api_trainer>([&] {
    return new ebb_api_trainer(ebb::api::train_options(json_of(options, "options")), listener,
                               context, token_of(stop));
  });
}

void ebb_api_trainer_destroy(ebb_api_trainer* trainer) { delete trainer; }

int ebb_api_trainer_plan(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] { return to_json(at(trainer).trainer.plan()); });
}

int ebb_api_trainer_run(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] { return to_json(at(trainer).trainer.run()); });
}

int ebb_api_trainer_step(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] {
    const std::optional<ebb::StepReport> report = at(trainer).trainer.step();
    return report ? to_json(*report) : ebb::Json(nullptr);
  });
}

int ebb_api_trainer_evaluate(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] {
    const std::optional<double> loss = at(trainer).trainer.evaluate();
    return loss ? ebb::Json(*loss) : ebb::Json(nullptr);
  });
}

int ebb_api_trainer_save(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] { return ebb::Json(at(trainer).trainer.save()); });
}

int ebb_api_trainer_finish(ebb_api_trainer* trainer, char** result) {
  return given(result, [&] { return to_json(at(trainer).trainer.finish()); });
}

ebb_api_generator* ebb_api_generator_create(ebb_api_model* model, const char* options,
                                            ebb_api_stop* stop) {
  return made<ebb_api_generator>([&] {
    return new ebb_api_generator{ebb::Generator(
        at(model).model, ebb::api::generator_options(json_of(options, "options")), token_of(stop))};
  });
}

void ebb_api_generator_destroy(ebb_api_generator* generator) { delete generator; }

long long ebb_api_generator_positions(ebb_api_generator* generator) {
  return generator == nullptr ? 0 : generator->generator.positions();
}

int ebb_api_generator_generate(ebb_api_generator* generator, const char* request,
                               ebb_api_listener listener, void* context, ebb_api_stop* stop,
                               char** result) {
  return given(result, [&] {
    Listener sink(listener, context);
    return to_json(ebb::api::generate(at(generator).generator,
                                      ebb::api::text_request(json_of(request, "the request")), sink,
                                      token_of(stop)));
  });
}

}  // extern "C"
