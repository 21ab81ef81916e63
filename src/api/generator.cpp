#include "ebb/generator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/generation_placement.h"
#include "api/text_batch.h"
#include "api/text_request.h"
#include "ebb/error.h"
#include "engine/settings.h"
#include "engine/trace_file.h"
#include "io/posix_file_system.h"
#include "io/stoppable_file_system.h"

namespace ebb {
namespace {

// The cache is taken whole when the generator is made. A long-context model knows hundreds of
// thousands of positions: a cache for all of them may be larger than the weights, and few texts
// need it.
constexpr std::int64_t kUsualPositions = 4096;

std::int64_t positions_of(const GeneratorOptions& options, const Model& model) {
  if (options.positions < 0) throw ConfigError("positions: expected 0 (as many as usual) or more");
  return options.positions > 0 ? options.positions
                               : std::min(kUsualPositions, model.max_positions());
}

}  // namespace

// Everything that a generator owns, at one address: `generator` keeps a reference to `runtime`, and
// `trace` to `disk`, so that a Generator can be moved but this cannot. Members are made in the
// order in which they need each other.
struct Generator::Loaded {
  Loaded(const Model& of, const GeneratorOptions& options, const std::stop_token& stop)
      : model(of),
        trace(disk, options.trace),
        stored(opened().generation_config()),
        runtime(options.device, engine::check_threads(options.threads)),
        limits(engine::limits_within(runtime.memory(), options.device_memory, options.host_memory)),
        generator(load(options, stop)),
        batch(generator, options.reuse) {}

  const api::OpenedModel& opened() const { return api::opened(model); }

  // Called while members are made: reads only those declared before `generator`. The file system
  // that can be stopped ends with this call, as nothing is read later.
  engine::Generator load(const GeneratorOptions& options, const std::stop_token& stop) {
    io::StoppableFileSystem files(disk, stop);
    const files::ModelSource& source = opened().source();
    if (opened().options.verify) files::verify_model(files, source);
    const DType dtype = options.dtype == FloatType::automatic
                            ? files::stored_dtype(files, source)
                            : engine::dtype_of(options.dtype, DType::bf16);
    engine::GeneratorSettings settings{
        .config = source.config,
        .dtype = dtype,
        .kept = engine::kept_types(files, source, runtime.device().kind()),
        .sequences = api::check_sequences(options.sequences),
        .positions = positions_of(options, model),
        .prompt_tokens = options.prompt_tokens,
        .limits = limits,
        .extras = engine::text_extras(opened().found_tokenizer(), opened().model->rendering_bytes(),
                                      source.config.vocabulary, options.sequences),
        .trace_runs = trace.wanted() ? engine::kTracedRuns : 0};
    api::set_placement(options.placement, &disk, settings);
    return engine::Generator(runtime, files, source, settings);
  }

  // All that can be refused is refused before the text waits for its turn.
  void begin(api::TextRequest request, TextSink sink, std::stop_token stop,
             std::function<void(const GenerateSummary&)> ended) {
    api::TextTokens tokens = check_request(request, opened(), generator.positions());
    engine::GenerationSettings settings = choose(request, opened(), stored);
    batch.begin(
        std::make_unique<api::WrittenText>(opened(), std::move(request), std::move(tokens),
                                           std::move(settings), std::move(sink), std::move(stop)),
        [this, told = std::move(ended)](api::WrittenText& text) {
          finish(text);
          if (told) told(text.summary());
        });
  }

  void finish(api::WrittenText& text) {
    GenerateSummary& summary = text.summary();
    summary.device_limit = limits[plan::Tier::device];
    summary.device_peak = generator.measured_peak();
    summary.plan = flags_of(generator.plan().choices);
    summary.json = to_json(summary, text.request(), text.settings(), opened());
  }

  // Others that are under way go on beside it.
  GenerateSummary write(api::TextRequest request, const TextSink& sink,
                        const std::stop_token& stop) {
    // Where another text's failure ends this call, nothing of the caller's is touched any more.
    struct Caller {
      const TextSink* sink;
      std::optional<GenerateSummary> summary{};
    };
    const auto caller = std::make_shared<Caller>(&sink);
    const auto left = [&](Caller*) { caller->sink = nullptr; };
    const std::unique_ptr<Caller, decltype(left)> leaving(caller.get(), left);
    begin(
        std::move(request),
        [caller](std::string_view piece) {
          return caller->sink != nullptr && (!*caller->sink || (*caller->sink)(piece));
        },
        stop, [caller](const GenerateSummary& found) { caller->summary = found; });
    while (batch.advance() && !caller->summary) {
    }
    if (!caller->summary) throw Error("a text ended without a summary");
    if (trace.wanted()) {
      generator.drain();
      trace.write(generator.trace());
    }
    return std::move(*caller->summary);
  }

  Model model;
  io::PosixFileSystem disk;
  engine::TraceFile trace;
  // Read once: the folder may be gone by the time a text is wanted.
  std::optional<files::GenerationConfig> stored;
  engine::Runtime runtime;
  plan::Limits limits;
  engine::Generator generator;
  api::TextBatch batch;  // before `generator` it ends
};

Generator::Generator(const Model& model, const GeneratorOptions& options, std::stop_token stop)
    : loaded_(std::make_unique<Loaded>(model, options, stop)) {}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

GenerateSummary Generator::generate(const std::string& prompt, const SamplingOptions& sampling,
                                    const TextSink& sink, std::stop_token stop) {
  return loaded_->write(api::continuation(loaded_->model, prompt, sampling), sink, stop);
}

GenerateSummary Generator::generate(std::span<const std::int32_t> prompt,
                                    const SamplingOptions& sampling, const TextSink& sink,
                                    std::stop_token stop) {
  return loaded_->write({.ids = {prompt.begin(), prompt.end()}, .prompt = {}, .sampling = sampling},
                        sink, stop);
}

GenerateSummary Generator::answer(const std::vector<ChatMessage>& messages,
                                  const SamplingOptions& sampling, const TextSink& sink,
                                  std::stop_token stop) {
  return loaded_->write(api::answer(loaded_->model, messages, sampling), sink, stop);
}

std::string explain_sampling(const Model& model, const SamplingOptions& sampling) {
  const api::OpenedModel& opened = api::opened(model);
  api::check_sampling(sampling);
  return choose({.ids = {}, .prompt = {}, .sampling = sampling}, opened, opened.generation_config())
      .explanation;
}

void Generator::begin(TextJob job) {
  api::TextRequest request;
  if (!job.ids.empty()) {
    request = {.ids = std::move(job.ids), .prompt = {}, .sampling = job.sampling};
  } else if (job.prompt.messages.empty()) {
    request = api::continuation(loaded_->model, job.prompt.text, job.sampling);
  } else {
    request = api::answer(loaded_->model, job.prompt.messages, job.sampling);
  }
  loaded_->begin(std::move(request), std::move(job.sink), std::move(job.stop),
                 std::move(job.ended));
}

bool Generator::advance() { return loaded_->batch.advance(); }

const Model& Generator::model() const { return loaded_->model; }

std::int64_t Generator::positions() const { return loaded_->generator.positions(); }

std::int64_t Generator::sequences() const { return loaded_->generator.sequences(); }

}  // namespace ebb
