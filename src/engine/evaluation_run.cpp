#include "engine/evaluation_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/rotary_table.h"
#include "engine/workload.h"
#include "kernels/split_master.h"

namespace ebb::engine {

EvaluationRun::EvaluationRun(Runtime& runtime, TrainingSettings settings, plan::Plan plan)
    : runtime_(runtime),
      settings_(std::move(settings)),
      plan_(std::move(plan)),
      parameters_(model::parameters_of(settings_.config)),
      decoder_(make_decoder(settings_)),
      map_(map_chunks(parameters_, plan_.program.chunks, settings_)),
      memory_(runtime, plan_, settings_.make_space),
      tasks_(runtime, decoder_, parameters_, map_, plan_,
             {.gradient_type = settings_.gradient_type, .clip = 0}),
      executor_(runtime.device(), memory_.spaces(),
                {{&plan_.program, &plan_.layout, [this](TaskRun& run) { run_task(run); }}},
                settings_.disturbance),
      store_(runtime, executor_, plan_.program, parameters_, map_, settings_.state_kind()) {
  kernels::ModelLibrary& library = runtime.device_model();
  for (const kernels::Product& product : evaluation_products(decoder_, library)) {
    library.prepare(product);
  }
  library.freeze();
  fill_rotary_table(executor_, plan_.program.persistent.tables, decoder_, settings_.shape.sequence);
  prepare_spaces(plan_, memory_);
  const auto brings_batch = [&](const plan::Task& task) {
    const plan::Use* from = task.find(plan::Role::source);
    return from != nullptr && from->object == plan_.program.persistent.batches[0];
  };
  const auto& tasks = plan_.program.tasks;
  load_task_ = static_cast<plan::TaskId>(std::ranges::find_if(tasks, brings_batch) - tasks.begin());
  if (settings_.trace_steps > 0) executor_.keep_times(settings_.trace_steps);
}

void EvaluationRun::load(io::FileSystem& files, const files::ModelSource& source,
                         const std::function<void(std::size_t)>& progress) {
  const files::WeightSink sink = [&](int parameter, std::int64_t first,
                                     std::span<const float> values) {
    progress(values.size());
    states::for_pieces(
        static_cast<std::int64_t>(values.size()), [&](std::int64_t at, std::int64_t count) {
          const float* const from = values.data() + at;
          if (settings_.dtype == DType::f32) {
            return store_.write(Plane::weight, parameter, first + at, count, from);
          }
          // As training splits its masters, so that both compute with the same weights.
          auto* const halves = reinterpret_cast<bf16*>(store_.staging());
          std::transform(from, from + count, halves,
                         [](float value) { return kernels::split_master(value).high; });
          store_.write(Plane::weight, parameter, first + at, count, halves);
        });
  };
  if (source.has_weights()) {
    files::load_weights(files, source, parameters_, sink);
  } else {
    files::initialize_weights(runtime_.pool(), source.config, parameters_, settings_.seed, sink);
  }
}

void EvaluationRun::run_task(TaskRun& run) {
  if (run.task.op != plan::Op::note_loss) return tasks_(run);
  const std::byte* const loss = run.read(plan::Role::report, sizeof(double));
  std::memcpy(&loss_sums_[slot(run.step)], loss, sizeof(double));
}

void EvaluationRun::add(const text::Batch& batch) {
  const std::int64_t next = executor_.steps_issued();
  // The tokens of the batch before are on the device then: their place is free.
  if (next > 0) executor_.wait(load_task_);
  executor_.wait_for_room();
  take_in(next - 1);
  std::byte* const to =
      executor_.address(plan_.program.persistent.batches[0], plan_.workload.batch);
  const Bytes half = plan_.workload.batch / 2;
  std::memcpy(to, batch.tokens.data(), to_size(half));
  std::memcpy(to + half, batch.targets.data(), to_size(half));
  loss_tokens_[slot(next)] =
      std::ranges::count_if(batch.targets, [](std::int32_t target) { return target >= 0; });
  executor_.issue();
}

void EvaluationRun::finish() {
  executor_.drain();
  take_in(executor_.steps_issued());
}

void EvaluationRun::take_in(std::int64_t before) {
  for (; done_ < before; ++done_) {
    const double loss = loss_sums_[slot(done_)];
    if (!std::isfinite(loss)) {
      throw NumericsError(fmt::format(
          "batch {}: the loss is not finite; the weights may be broken, or too large for "
          "--dtype bf16",
          done_ + 1));
    }
    total_.loss_sum += loss;
    total_.loss_tokens += loss_tokens_[slot(done_)];
  }
}

plan::Trace EvaluationRun::trace() const {
  plan::Trace trace{.kind = plan::Trace::Kind::measured,
                    .plan = plan_,
                    .spans = executor_.spans(),
                    .steps = settings_.trace_steps,
                    .verb = "evaluate",
                    .run = "batch"};
  for (plan::TimeSpan& span : trace.spans) ++span.step;  // people count from 1
  return trace;
}

}  // namespace ebb::engine
