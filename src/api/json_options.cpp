#include "api/json_options.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/json_fields.h"
#include "ebb/error.h"
#include "ebb/trainer.h"

namespace ebb::api {
namespace {

// Fields of one struct, with what its kinds of values look like in JSON.
class OptionFields {
 public:
  explicit OptionFields(std::string object) : fields_(std::move(object), "option") {}

  template <class Field>
  OptionFields& operator()(const std::string& name, Field& to) {
    fields_.add(name, to);
    return *this;
  }

  template <class Enum>
  OptionFields& word(const std::string& name, Enum& to) {
    return taken(name, [this, name, &to](const Json& value) {
      to = parse_word<Enum>(fields_.read<std::string>(name, value), flag(name));
    });
  }

  OptionFields& bytes(const std::string& name, std::optional<Bytes>& to) {
    return taken(name, [this, name, &to](const Json& value) {
      to = value.is_string() ? parse_bytes(value.get<std::string>(), flag(name))
                             : fields_.read<Bytes>(name, value);
    });
  }

  OptionFields& blocks(const std::string& name, Blocks& to, const BlockWords& words) {
    return taken(name, [this, name, words, &to](const Json& value) {
      to = parse_blocks(value.is_string() ? value.get<std::string>()
                                          : fmt::to_string(fields_.read<std::int64_t>(name, value)),
                        flag(name), words);
    });
  }

  // One, or a list.
  OptionFields& texts(const std::string& name, std::vector<std::string>& to) {
    return taken(name, [this, name, &to](const Json& value) { to = list(name, value); });
  }

  OptionFields& disks(const std::string& name, std::vector<DiskFolder>& to) {
    return taken(name, [this, name, &to](const Json& value) {
      to.clear();
      for (const std::string& text : list(name, value)) to.push_back(parse_disk_folder(text));
    });
  }

  OptionFields& taken(const std::string& name, JsonFields::Take take) {
    fields_.add(name, std::move(take));
    return *this;
  }

  void fill(const Json& json) const { fields_.fill_given(json); }

  // "--micro-batch", as errors call it.
  static std::string flag(const std::string& name) {
    std::string text = "--" + name;
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  }

 private:
  std::vector<std::string> list(const std::string& name, const Json& value) const {
    std::vector<std::string> all;
    if (!value.is_array()) return {fields_.read<std::string>(name, value)};
    for (const Json& one : value) all.push_back(fields_.read<std::string>(name, one));
    return all;
  }

  JsonFields fields_;
};

void add_data(OptionFields& fields, auto& o) {
  fields.texts("data", o.data)("tokenizer", o.tokenizer);
  fields.word("packing", o.packing).word("loss", o.loss).word("on_bad_data", o.on_bad_data);
  fields("sequence", o.sequence)("micro_batch", o.micro_batch);
}

void add_machine(OptionFields& fields, auto& o) {
  fields.bytes("device_memory", o.device_memory).bytes("host_memory", o.host_memory);
  fields.word("dtype", o.dtype).word("device", o.device)("threads", o.threads)("trace", o.trace);
}

void add_placement(OptionFields& fields, GenerationPlacement& o) {
  fields.disks("disk", o.disk).blocks("weights", o.weights, kWeightWords);
  fields("disk_weights", o.disk_weights).word("attention", o.attention);
  fields.blocks("cpu_blocks", o.cpu_blocks, kCpuBlockWords);
  fields.blocks("cpu_prompt_blocks", o.cpu_prompt_blocks, kCpuBlockWords);
  fields.word("cache", o.cache)("slice", o.slice)("depth", o.depth);
}

void add_sampling(OptionFields& fields, SamplingOptions& o) {
  fields("max_tokens", o.max_tokens)("temperature", o.temperature)("top_k", o.top_k)(
      "top_p", o.top_p)("min_p", o.min_p)("repetition_penalty", o.repetition_penalty)(
      "repetition_window", o.repetition_window)("seed", o.seed);
  fields.texts("stop", o.stop)("show_special", o.show_special)("log_probs", o.log_probs);
}

void add_optimizer(OptionFields& fields, TrainOptions& o) {
  fields.word("optimizer", o.optimizer)("learning_rate", o.learning_rate)("clip", o.clip)(
      "weight_decay", o.weight_decay)("beta1", o.beta1)("beta2", o.beta2)("epsilon", o.epsilon)(
      "momentum", o.momentum)("nesterov", o.nesterov);
  fields.word("state_format", o.state_format)
      .word("schedule", o.schedule)("warmup", o.warmup)("final_share", o.final_share)(
          "decay_share", o.decay_share);
}

void add_places(OptionFields& fields, TrainOptions& o) {
  constexpr BlockWords numbers{"none", "all"};
  fields.word("states", o.states)("offload_fraction", o.offload_fraction)("host_fraction",
                                                                          o.host_fraction);
  fields.blocks("weights", o.weights, kWeightWords);
  fields.blocks("gradient_sums", o.gradient_sums, kGradientSumWords);
  fields.word("vocabulary", o.vocabulary).blocks("recompute", o.recompute, kRecomputeWords);
  fields.blocks("save_cheap", o.save_cheap, kSaveCheapWords);
  fields.taken("activations", [&o](const Json& value) {
    // "disk" is a word for two of the choices, as on the command line.
    const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
    o.activations =
        word == "disk" ? Blocks::all() : parse_blocks(word, "--activations", kActivationWords);
    if (word == "disk") o.disk_activations = Blocks::all();
  });
  fields("disk_fraction", o.disk_fraction).blocks("disk_weights", o.disk_weights, numbers);
  fields.blocks("disk_sums", o.disk_sums, numbers);
  fields.blocks("disk_activations", o.disk_activations, numbers);
  fields("chunk_parameters", o.chunk_parameters)("depth", o.depth);
}

}  // namespace

TrainOptions train_options(const Json& json) {
  TrainOptions o;
  OptionFields fields("the options of training");
  add_data(fields, o);
  add_machine(fields, o);
  add_optimizer(fields, o);
  add_places(fields, o);
  fields("model", o.model)("out", o.out)("accept_changed_data", o.accept_changed_data);
  fields.texts("eval_data", o.eval_data)("eval_share", o.eval_share)("eval_batches",
                                                                     o.eval_batches);
  fields("eval_every", o.eval_every)("accumulate", o.accumulate).disks("disk", o.disk);
  fields.bytes("disk_endurance", o.disk_endurance).word("gradients", o.gradients);
  fields("steps", o.steps)("seed", o.seed)("profile", o.profile)("keep", o.keep)(
      "resume", o.resume)("trace_steps", o.trace_steps)("verify", o.verify)("summarize",
                                                                            o.summarize);
  fields.taken("save_every", [&o](const Json& value) {
    o.save_every = parse_save_every(value.is_string() ? value.get<std::string>() : value.dump());
  });
  fields("save_patience_seconds", o.save_patience_seconds).texts("outputs", o.outputs);
  fields.fill(json);
  return o;
}

EvaluateOptions evaluate_options(const Json& json) {
  EvaluateOptions o;
  OptionFields fields("the options of evaluation");
  add_data(fields, o);
  add_machine(fields, o);
  fields("model", o.model)("batches", o.batches)("max_tokens", o.max_tokens);
  fields.disks("disk", o.disk).blocks("weights", o.weights, kWeightWords);
  fields.word("vocabulary", o.vocabulary).blocks("disk_weights", o.disk_weights, {"none", "all"});
  fields("chunk_parameters", o.chunk_parameters)("depth", o.depth)("profile", o.profile)("verify",
                                                                                         o.verify);
  fields.fill(json);
  return o;
}

ModelOptions model_options(const Json& json) {
  ModelOptions o;
  OptionFields fields("the options of a model");
  fields("tokenizer", o.tokenizer)("verify", o.verify).bytes("host_memory", o.host_memory);
  fields.fill(json);
  return o;
}

GeneratorOptions generator_options(const Json& json) {
  GeneratorOptions o;
  OptionFields fields("the options of a generator");
  add_machine(fields, o);
  add_placement(fields, o.placement);
  fields("positions", o.positions)("prompt_tokens", o.prompt_tokens);
  fields.taken("reuse", [&o](const Json& value) {
    if (value != "slices" && value != "all") {
      throw ConfigError(fmt::format("reuse {}: expected slices or all", value.dump()));
    }
    o.reuse = value == "all" ? PrefixReuse::all : PrefixReuse::slices;
  });
  fields.fill(json);
  return o;
}

GenerateOptions generate_options(const Json& json) {
  GenerateOptions o;
  OptionFields fields("the options of generation");
  add_machine(fields, o);
  add_placement(fields, o.placement);
  add_sampling(fields, o);
  fields("model", o.model)("tokenizer", o.tokenizer)("verify", o.verify);
  fields.fill(json);
  return o;
}

TextRequest text_request(const Json& json) {
  TextRequest request;
  OptionFields fields("the request of a text");
  add_sampling(fields, request.sampling);
  fields("prompt", request.prompt);
  fields.taken("ids", [&](const Json& value) { request.ids = token_ids(value); });
  fields.taken("messages", [&](const Json& value) { request.messages = chat_messages(value); });
  fields.fill(json);
  if (request.prompt.has_value() + request.ids.has_value() + request.messages.has_value() != 1) {
    throw ConfigError("the request of a text: expected one of prompt, ids and messages");
  }
  return request;
}

std::vector<std::int32_t> token_ids(const Json& json) {
  std::vector<std::int32_t> ids;
  for (const Json& id : json) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > most) {
      throw ConfigError(
          fmt::format("token id {}: expected a number from 0 to {}", id.dump(), most));
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::vector<ChatMessage> chat_messages(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& given : json) {
    ChatMessage& message = messages.emplace_back();
    OptionFields fields("a message of a conversation");
    fields("role", message.role)("content", message.content);
    fields.fill(given);
  }
  return messages;
}

}  // namespace ebb::api
