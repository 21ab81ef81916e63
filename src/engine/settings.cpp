#include "engine/settings.h"

#include <charconv>

#include <fmt/format.h>

#include "base/machine.h"
#include "ebb/error.h"
#include "engine/training_data.h"

namespace ebb::engine {
namespace {

void require(bool good, std::string_view flag, const std::string& found,
             std::string_view expected) {
  if (!good) throw ConfigError(fmt::format("{} {}: expected {}", flag, found, expected));
}

// Beyond these a typing error is likelier than a wish, and sums of bytes could overflow.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // of a micro-batch
constexpr std::int64_t kMostMicroBatches = 1 << 16;
constexpr std::int64_t kMostTracedSteps = 1000;

void require_positive(std::int64_t value, std::string_view flag, std::int64_t most = kMostSteps) {
  require(value >= 1 && value <= most, flag, std::to_string(value),
          fmt::format("a whole number from 1 to {}", most));
}

// `none` and `all` are the words for no block and every block.
std::optional<std::int64_t> parse_blocks(const std::string& text, std::string_view flag,
                                         std::string_view none, std::string_view all,
                                         std::int64_t layers, std::string_view other = {}) {
  if (text == "auto") return std::nullopt;
  if (text == none) return 0;
  if (text == all) return layers;
  std::int64_t blocks = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), blocks);
  require(error == std::errc{} && end == text.data() + text.size() && blocks >= 0, flag,
          "'" + text + "'", fmt::format("{}, {}, {}auto or a number of blocks", none, all, other));
  return std::min(blocks, layers);
}

std::optional<plan::Site> parse_site(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const plan::Site site : {plan::Site::resident, plan::Site::stream, plan::Site::host}) {
    if (text == name_of(site)) return site;
  }
  throw ConfigError(fmt::format("--states '{}': expected resident, stream, host or auto", text));
}

// Plans are made of chunks and of tasks for every block and micro-batch; both stay countable.
void check_plan_size(const TrainOptions& o, const model::Config& config) {
  constexpr std::int64_t most_chunks = 1 << 14;
  const std::int64_t parameters = model::parameters_of(config).count();
  if (o.chunk_parameters) {
    require(*o.chunk_parameters >= parameters / most_chunks, "--chunk-parameters",
            std::to_string(*o.chunk_parameters),
            fmt::format("at least {} for {} parameters", parameters / most_chunks, parameters));
  }
  // Of a block forward, backward and sum, and a few of the pass: no plan has fewer.
  const std::int64_t most_passes = plan::kMostTasks / (3 * config.layers + 5);
  require(
      o.accumulate <= most_passes, "--accumulate", std::to_string(o.accumulate),
      fmt::format("at most {} for a model of {} blocks, so that a step has no more than {} tasks; "
                  "a larger --micro-batch does the same work",
                  most_passes, config.layers, plan::kMostTasks));
}

optim::Rule parse_optimizer(const TrainOptions& o) {
  return optim::make_rule({.name = o.optimizer,
                           .beta1 = o.beta1,
                           .beta2 = o.beta2,
                           .epsilon = o.epsilon,
                           .momentum = o.momentum,
                           .nesterov = o.nesterov ? std::optional(true) : std::nullopt,
                           .weight_decay = o.weight_decay});
}

plan::Wishes parse_wishes(const TrainOptions& o, std::int64_t layers) {
  plan::Wishes wishes;
  wishes.site = parse_site(o.states);
  wishes.offload_fraction = o.offload_fraction;
  wishes.host_fraction = o.host_fraction;
  wishes.disk_fraction = o.disk_fraction;
  require(o.disk_endurance.value_or(1) > 0, "--disk-endurance", "0", "what the drives can take");
  for (const auto& [flag, value] : {std::pair{"--offload-fraction", o.offload_fraction},
                                    std::pair{"--host-fraction", o.host_fraction},
                                    std::pair{"--disk-fraction", o.disk_fraction}}) {
    require(!value || (*value >= 0 && *value <= 1), flag, fmt::format("{}", value.value_or(0)),
            "a share between 0 and 1");
  }
  if (wishes.site == plan::Site::resident) {
    require(o.offload_fraction.value_or(0) == 0 && o.host_fraction.value_or(0) == 0 &&
                o.disk_fraction.value_or(0) == 0,
            "--states resident", "with an offload fraction",
            "--states stream, host or auto with it");
    wishes.offload_fraction.reset();
    wishes.host_fraction.reset();
    wishes.disk_fraction.reset();
  }
  if (wishes.site == plan::Site::host) {
    require(!o.host_fraction, "--states host", "with --host-fraction",
            "--offload-fraction alone: all that leaves the device is updated by the CPU");
  }
  const std::int64_t blocks = layers + 2;  // with the embedding and the head
  wishes.streamed_weights = parse_blocks(o.weights, "--weights", "resident", "stream", blocks);
  wishes.host_sums = parse_blocks(o.gradient_sums, "--gradient-sums", "device", "host", blocks);
  wishes.recompute_blocks = parse_blocks(o.recompute, "--recompute", "none", "block", layers);
  const bool inputs_on_disk = o.activations == "disk";
  wishes.host_inputs = inputs_on_disk ? layers
                                      : parse_blocks(o.activations, "--activations", "device",
                                                     "host", layers, "disk, ");
  if (inputs_on_disk) wishes.disk_inputs = layers;
  const auto on_disk = [&](const char* flag, const std::optional<std::int64_t>& value,
                           std::optional<std::int64_t>& wish) {
    if (!value) return;
    require(*value >= 0, flag, std::to_string(*value), "a number of blocks");
    wish = std::min(*value, blocks);
  };
  on_disk("--disk-weights", o.disk_weights, wishes.disk_weights);
  on_disk("--disk-sums", o.disk_sums, wishes.disk_sums);
  on_disk("--disk-activations", o.disk_activations, wishes.disk_inputs);
  const bool wants_disk = o.disk_fraction.value_or(0) > 0 || wishes.disk_weights.value_or(0) > 0 ||
                          wishes.disk_sums.value_or(0) > 0 || wishes.disk_inputs.value_or(0) > 0;
  require(!wants_disk || !o.disk.empty(), "what should be on a disk", "without one",
          "--disk PATH, the folder for it");
  wishes.kept_blocks = parse_blocks(o.keep_cheap, "--keep-cheap", "none", "all", layers);
  if (o.chunk_parameters) require_positive(*o.chunk_parameters, "--chunk-parameters");
  wishes.chunk_parameters = o.chunk_parameters;
  if (o.depth) {
    require(*o.depth >= plan::Choices::kLeastDepth && *o.depth <= plan::Choices::kMostDepth,
            "--depth", std::to_string(*o.depth),
            fmt::format("{} to {}", plan::Choices::kLeastDepth, plan::Choices::kMostDepth));
  }
  wishes.depth = o.depth;
  return wishes;
}

}  // namespace

int check_threads(int threads) {
  require(threads >= 0 && threads <= kMostThreads, "--threads", std::to_string(threads),
          fmt::format("0 (all that may be used) to {}", kMostThreads));
  return threads;
}

DType parse_dtype(const std::string& text, std::string_view flag) {
  require(text == "bf16" || text == "fp32", flag, "'" + text + "'", "bf16 or fp32");
  return text == "bf16" ? DType::bf16 : DType::f32;
}

TrainingSettings training_settings(const TrainOptions& o, const model::Config& config,
                                   const MachineMemory& machine) {
  require_positive(o.sequence, "--sequence", kMostTokens);
  require_positive(o.micro_batch, "--micro-batch", kMostTokens / o.sequence);
  require_positive(o.accumulate, "--accumulate", kMostMicroBatches);
  require_positive(o.steps, "--steps");
  const bool counts =
      o.save_every.kind == SaveEvery::Kind::steps || o.save_every.kind == SaveEvery::Kind::seconds;
  require(!counts || o.save_every.count > 0, "--save-every", fmt::format("{}", o.save_every.count),
          "more than 0 steps or seconds");
  require(o.save_patience_seconds >= 0, "--save-patience",
          fmt::format("{}s", o.save_patience_seconds), "0s or more");
  require(o.keep >= 0, "--keep", std::to_string(o.keep), "0 (save nothing) or more");
  if (!o.trace.empty()) require_positive(o.trace_steps, "--trace-steps", kMostTracedSteps);
  check_data_flags(o);
  require(o.clip >= 0, "--clip", fmt::format("{}", o.clip), "0 (no clipping) or more");

  TrainingSettings s;
  s.config = config;
  s.shape = {.rows = o.micro_batch, .sequence = o.sequence};
  s.accumulate = o.accumulate;
  s.dtype = parse_dtype(o.dtype, "--dtype");
  s.gradient_type = o.gradients == "auto" ? s.dtype : parse_dtype(o.gradients, "--gradients");
  require(s.dtype == DType::bf16 || s.gradient_type == DType::f32, "--gradients", "bf16",
          "fp32 gradients with --dtype fp32");
  s.rule = parse_optimizer(o);
  s.format = optim::parse_state_format(o.state_format);
  optim::validate(s.rule, s.format);
  s.seed = o.seed;
  s.schedule.shape = optim::parse_schedule(o.schedule);
  s.schedule.peak = o.learning_rate;
  s.schedule.warmup = o.warmup;
  s.schedule.steps = o.steps;
  s.schedule.final_share =
      o.final_share.value_or(optim::Schedule::default_final_share(s.schedule.shape));
  s.schedule.decay_share = o.decay_share;
  optim::validate(s.schedule);
  s.clip = o.clip;
  s.limits = limits_within(machine, o.device_memory, o.host_memory);
  s.wishes = parse_wishes(o, config.layers);
  s.trace_steps = o.trace.empty() ? 0 : o.trace_steps;
  check_plan_size(o, config);
  const Bytes batch = 2 * 4 * o.sequence * o.micro_batch;
  s.extras = {{plan::Tier::host, "staging", kStagingBytes},
              {plan::Tier::host, "batches", (kBatchesAhead + 1) * o.accumulate * batch}};
  return s;
}

}  // namespace ebb::engine
