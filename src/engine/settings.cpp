#include "engine/settings.h"

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

std::optional<plan::Site> site_of(StatePlacement placement) {
  switch (placement) {
    case StatePlacement::automatic: break;
    case StatePlacement::resident: return plan::Site::resident;
    case StatePlacement::stream: return plan::Site::stream;
    case StatePlacement::host: return plan::Site::host;
  }
  return std::nullopt;
}

states::StateFormat format_of(StateFormat format) {
  switch (format) {
    case StateFormat::exact: break;
    case StateFormat::bf16: return states::StateFormat::bf16;
    case StateFormat::int8: return states::StateFormat::int8;
  }
  return states::StateFormat::exact;
}

states::Schedule::Shape shape_of(LearningRateSchedule schedule) {
  using Shape = states::Schedule::Shape;
  switch (schedule) {
    case LearningRateSchedule::constant: return Shape::constant;
    case LearningRateSchedule::linear: return Shape::linear;
    case LearningRateSchedule::cosine: break;
    case LearningRateSchedule::wsd: return Shape::wsd;
  }
  return Shape::cosine;
}

// The number of blocks, `all` at most; nothing where the plan decides.
std::optional<std::int64_t> blocks_of(const Blocks& blocks, std::string_view flag,
                                      std::int64_t all) {
  require(blocks.count().value_or(0) >= 0, flag, std::to_string(blocks.count().value_or(0)),
          "a number of blocks");
  return blocks.of(all);
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
  // A micro-batch has forward, backward and sum of each block, and a few tasks more: no plan has
  // fewer.
  const std::int64_t most_passes = plan::kMostTasks / (3 * config.layers + 5);
  require(
      o.accumulate <= most_passes, "--accumulate", std::to_string(o.accumulate),
      fmt::format("at most {} for a model of {} blocks, so that a step has no more than {} tasks; "
                  "a larger --micro-batch does the same work",
                  most_passes, config.layers, plan::kMostTasks));
}

states::Rule rule_of(const TrainOptions& o) {
  return states::make_rule({.name = std::string(to_word(o.optimizer)),
                            .beta1 = o.beta1,
                            .beta2 = o.beta2,
                            .epsilon = o.epsilon,
                            .momentum = o.momentum,
                            .nesterov = o.nesterov ? std::optional(true) : std::nullopt,
                            .weight_decay = o.weight_decay});
}

plan::FixedChoices fixed_choices(const TrainOptions& o, std::int64_t layers) {
  plan::FixedChoices fixed;
  fixed.site = site_of(o.states);
  fixed.offload_fraction = o.offload_fraction;
  fixed.host_fraction = o.host_fraction;
  fixed.disk_fraction = o.disk_fraction;
  require(o.disk_endurance.value_or(1) > 0, "--disk-endurance", "0", "what the drives can take");
  for (const auto& [flag, value] : {std::pair{"--offload-fraction", o.offload_fraction},
                                    std::pair{"--host-fraction", o.host_fraction},
                                    std::pair{"--disk-fraction", o.disk_fraction}}) {
    require(!value || (*value >= 0 && *value <= 1), flag, fmt::format("{}", value.value_or(0)),
            "a share between 0 and 1");
  }
  if (fixed.site == plan::Site::resident) {
    require(o.offload_fraction.value_or(0) == 0 && o.host_fraction.value_or(0) == 0 &&
                o.disk_fraction.value_or(0) == 0,
            "--states resident", "with an offload fraction",
            "--states stream, host or auto with it");
    fixed.offload_fraction.reset();
    fixed.host_fraction.reset();
    fixed.disk_fraction.reset();
  }
  if (fixed.site == plan::Site::host) {
    require(!o.host_fraction, "--states host", "with --host-fraction",
            "--offload-fraction alone: all that leaves the device is updated by the CPU");
  }
  const std::int64_t blocks = layers + 2;  // with the embedding and the head
  fixed.streamed_weights = blocks_of(o.weights, "--weights", blocks);
  fixed.host_sums = blocks_of(o.gradient_sums, "--gradient-sums", blocks);
  if (o.vocabulary != VocabularyUse::automatic) {
    fixed.vocabulary_cut = o.vocabulary == VocabularyUse::cut ? 1 : 0;
  }
  fixed.recompute_blocks = blocks_of(o.recompute, "--recompute", layers);
  fixed.host_inputs = blocks_of(o.activations, "--activations", layers);
  fixed.disk_weights = blocks_of(o.disk_weights, "--disk-weights", blocks);
  fixed.disk_sums = blocks_of(o.disk_sums, "--disk-sums", blocks);
  fixed.disk_inputs = blocks_of(o.disk_activations, "--disk-activations", layers);
  const bool wants_disk = o.disk_fraction.value_or(0) > 0 || fixed.disk_weights.value_or(0) > 0 ||
                          fixed.disk_sums.value_or(0) > 0 || fixed.disk_inputs.value_or(0) > 0;
  require(!wants_disk || !o.disk.empty(), "--disk", "is missing for what should be on a disk",
          "--disk PATH, the folder for it");
  fixed.cheap_saved_blocks = blocks_of(o.save_cheap, "--save-cheap", layers);
  if (o.chunk_parameters) require_positive(*o.chunk_parameters, "--chunk-parameters");
  fixed.chunk_parameters = o.chunk_parameters;
  if (o.depth) {
    require(*o.depth >= plan::Choices::kLeastDepth && *o.depth <= plan::Choices::kMostDepth,
            "--depth", std::to_string(*o.depth),
            fmt::format("{} to {}", plan::Choices::kLeastDepth, plan::Choices::kMostDepth));
  }
  fixed.depth = o.depth;
  return fixed;
}

}  // namespace

int check_threads(int threads) {
  require(threads >= 0 && threads <= kMostThreads, "--threads", std::to_string(threads),
          fmt::format("0 (all that may be used) to {}", kMostThreads));
  return threads;
}

DType dtype_of(FloatType type, DType otherwise) {
  switch (type) {
    case FloatType::automatic: break;
    case FloatType::bf16: return DType::bf16;
    case FloatType::fp32: return DType::f32;
  }
  return otherwise;
}

TrainingSettings training_settings(const TrainOptions& o, const model::Config& config,
                                   const MachineMemory& machine) {
  require_positive(o.sequence, "--sequence", kMostTokens);
  // Of the two the one to change is the one that is out of the ordinary.
  require(o.sequence <= config.max_positions || o.micro_batch <= kMostTokens / o.sequence,
          "--sequence", std::to_string(o.sequence),
          fmt::format("at most {} tokens in the {} sequences of --micro-batch; the model knows {} "
                      "positions",
                      kMostTokens, o.micro_batch, config.max_positions));
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
  if (o.gradient_groups) {
    require(*o.gradient_groups >= 1 && o.accumulate % *o.gradient_groups == 0, "--gradient-groups",
            std::to_string(*o.gradient_groups),
            fmt::format("a divisor of the {} micro-batches of a step", o.accumulate));
    s.gradient_groups = *o.gradient_groups;
  }
  s.dtype = dtype_of(o.dtype, DType::bf16);
  s.gradient_type = dtype_of(o.gradients, s.dtype);
  require(s.dtype == DType::bf16 || s.gradient_type == DType::f32, "--gradients", "bf16",
          "fp32 gradients with --dtype fp32");
  s.rule = rule_of(o);
  s.format = format_of(o.state_format);
  states::validate(s.rule, s.format);
  s.seed = o.seed;
  s.schedule.shape = shape_of(o.schedule);
  s.schedule.peak = o.learning_rate;
  s.schedule.warmup = o.warmup;
  s.schedule.steps = o.steps;
  s.schedule.final_share =
      o.final_share.value_or(states::Schedule::default_final_share(s.schedule.shape));
  s.schedule.decay_share = o.decay_share;
  states::validate(s.schedule);
  s.clip = o.clip;
  s.limits = limits_within(machine, o.device_memory, o.host_memory);
  s.fixed = fixed_choices(o, config.layers);
  s.trace_steps = o.trace.empty() ? 0 : o.trace_steps;
  check_plan_size(o, config);
  const Bytes batch = 2 * 4 * o.sequence * o.micro_batch;
  s.extras = {
      {plan::Tier::host, "staging", kStagingBytes},
      {plan::Tier::host, std::string(kBatchesExtra), (kBatchesAhead + 1) * o.accumulate * batch}};
  return s;
}

}  // namespace ebb::engine
