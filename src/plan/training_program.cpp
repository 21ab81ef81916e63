#include "plan/training_program.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "plan/tide.h"

namespace ebb::plan {
namespace {

class TrainingBuilder {
 public:
  TrainingBuilder(const Workload& work, const Choices& choices, const Tide& tide)
      : work_(work),
        choices_(choices),
        tide_(tide),
        layers_(static_cast<int>(work.blocks.size()) - 2) {
    program_.chunks = cut_chunks(work, choices);
    cells_.resize(work.blocks.size());
    for (int c = 0; c < static_cast<int>(program_.chunks.size()); ++c) {
      cells_[at(program_.chunks[at(c)].block)].push_back(c);
    }
  }

  Program build() {
    make_persistent_objects();
    task(Op::forget_scale, Lane::host, {writes(Role::host_scale, host_scale_)});
    TaskId earliest = 0;
    for (int micro = 0; micro < work_.micro_batches; ++micro) {
      if (micro == last_micro() && !tide_.early)
        earliest = static_cast<TaskId>(program_.tasks.size());
      forward_pass(micro);
      backward_pass(micro);
    }
    decide_scale();
    update_chunks();
    ride_in(program_, std::move(fetches_), tide_.budget, earliest,
            tide_.early ? Arrival::first_first : Arrival::last_first);
    program_.find_lifetimes();
    return std::move(program_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const Block& block(int b) const { return work_.blocks[at(b)]; }
  const Chunk& chunk(int c) const { return program_.chunks[at(c)]; }
  int head() const { return layers_ + 1; }
  int last_micro() const { return static_cast<int>(work_.micro_batches) - 1; }
  // A block that runs twice keeps nothing.
  bool keeps(int layer) const {
    return layer >= choices_.recompute_blocks && layer >= layers_ - choices_.kept_blocks;
  }
  bool summed() const { return work_.micro_batches > 1; }
  bool first_is_sum() const { return work_.micro_batches == 2; }
  bool has_device_site(int b) const {
    return std::any_of(cells_[at(b)].begin(), cells_[at(b)].end(),
                       [&](int c) { return chunk(c).site != Site::host; });
  }

  ObjectId object(Tier tier, Purpose purpose, Bytes bytes, std::string name, End end = End::low) {
    program_.objects.push_back({.tier = tier,
                                .purpose = purpose,
                                .end = end,
                                .bytes = align_up(bytes),
                                .name = std::move(name)});
    return static_cast<ObjectId>(program_.objects.size()) - 1;
  }
  ObjectId persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name, int cells = 1) {
    const ObjectId id = object(tier, purpose, bytes, std::move(name));
    program_.objects.back().persistent = true;
    program_.objects.back().cells = cells;
    return id;
  }

  // Objects of zero bytes are left out of a task: a block that keeps nothing saves nothing.
  Task& task(Op op, Lane lane, std::vector<Use> uses) {
    std::erase_if(uses, [&](const Use& use) {
      return use.object < 0 || program_.objects[at(use.object)].bytes == 0;
    });
    program_.tasks.push_back({.op = op, .lane = lane, .uses = std::move(uses)});
    return program_.tasks.back();
  }
  static Use reads(Role role, ObjectId id, int cell = -1) { return {role, id, Access::read, cell}; }
  static Use writes(Role role, ObjectId id, int cell = -1) {
    return {role, id, Access::write, cell};
  }

  void make_persistent_objects() {
    for (int b = 0; b < static_cast<int>(work_.blocks.size()); ++b) {
      homes_.weights.push_back(
          persistent(Tier::device, Purpose::weights, block(b).parameters * work_.weight_bytes,
                     block(b).name + " weights", static_cast<int>(cells_[at(b)].size())));
    }
    homes_.scratch = persistent(Tier::device, Purpose::workspace, work_.scratch, "scratch");
    homes_.tables = persistent(Tier::device, Purpose::workspace, work_.tables, "tables");
    std::int64_t squares = 0;
    for (const Block& b : work_.blocks) {
      for (const TensorRange& tensor : b.tensors) {
        squares += (tensor.count + work_.norm_block - 1) / work_.norm_block;
      }
    }
    report_bytes_ = 8 * (work_.micro_batches + squares);
    report_ = persistent(Tier::device, Purpose::workspace, report_bytes_, "report");
    scale_ = persistent(Tier::device, Purpose::workspace, 8, "scale");
    homes_.host_report = persistent(Tier::host, Purpose::workspace, report_bytes_, "report");
    host_squares_ = persistent(Tier::host, Purpose::workspace, report_bytes_, "host squares");
    host_scale_ = persistent(Tier::host, Purpose::workspace, 8, "scale");
    for (int m = 0; m < work_.micro_batches; ++m) {
      homes_.host_batches.push_back(
          persistent(Tier::host, Purpose::batch, work_.batch, fmt::format("batch {}", m)));
    }
    for (int c = 0; c < static_cast<int>(program_.chunks.size()); ++c) make_chunk_objects(c);
    sums_.assign(work_.blocks.size(), -1);
    gradients_.assign(work_.blocks.size(), -1);
  }

  void make_chunk_objects(int c) {
    const Bytes bytes = work_.state_bytes(chunk(c).count);
    const bool on_device = chunk(c).site == Site::resident;
    homes_.states.push_back(persistent(on_device ? Tier::device : Tier::host, Purpose::states,
                                       bytes, fmt::format("chunk {} state", c)));
    homes_.host_weights.push_back(chunk(c).site == Site::host
                                      ? persistent(Tier::host, Purpose::weights,
                                                   chunk(c).count * work_.weight_bytes,
                                                   fmt::format("chunk {} weights", c))
                                      : -1);
    host_sums_.push_back(-1);
    host_gradients_.push_back(-1);
  }

  void forward_pass(int micro) {
    batch_ = object(Tier::device, Purpose::batch, work_.batch, fmt::format("batch {}", micro));
    Task& load = task(
        Op::load_batch, Lane::compute,
        {reads(Role::host_batch, homes_.host_batches[at(micro)]), writes(Role::batch, batch_)});
    load.micro = micro;
    load.moved = work_.batch;
    inputs_.assign(at(layers_ + 1), -1);
    host_inputs_.assign(at(layers_ + 1), -1);
    saved_.assign(at(layers_ + 1), -1);
    kept_.assign(at(layers_ + 1), -1);
    inputs_[0] = new_input(0);
    Task& embed = task(Op::embed, Lane::compute,
                       {reads(Role::weights, homes_.weights[0]), reads(Role::batch, batch_),
                        writes(Role::output, inputs_[0]),
                        writes(Role::work, work_object(0, block(0).forward_work))});
    embed.micro = micro;
    embed.block = 0;
    embed.cost = block(0).forward;
    for (int layer = 0; layer < layers_; ++layer) {
      inputs_[at(layer + 1)] = new_input(layer + 1);
      saved_[at(layer)] = run_block(Op::forward, layer, micro, inputs_[at(layer + 1)]);
      if (layer < choices_.host_inputs) send_input(layer, micro);
    }
  }

  ObjectId new_input(int layer) {
    return object(Tier::device, Purpose::activations, work_.input, fmt::format("input {}", layer));
  }
  ObjectId work_object(int b, Bytes bytes) {
    return object(Tier::device, Purpose::workspace, bytes, block(b).name + " work");
  }

  // The forward of a transformer block, the first time or again; returns what it saves. When it is
  // to be recomputed, what the first time saves is dropped right away.
  ObjectId run_block(Op op, int layer, int micro, ObjectId output) {
    const int b = layer + 1;
    const ObjectId saved = object(Tier::device, Purpose::activations, block(b).saved,
                                  fmt::format("{} saved", block(b).name));
    if (keeps(layer)) {
      kept_[at(layer)] = object(Tier::device, Purpose::activations, block(b).kept,
                                fmt::format("{} kept", block(b).name));
    }
    Task& run =
        task(op, Lane::compute,
             {reads(Role::weights, homes_.weights[at(b)]), reads(Role::input, inputs_[at(layer)]),
              reads(Role::tables, homes_.tables), writes(Role::output, output),
              writes(Role::saved, saved), writes(Role::kept, kept_[at(layer)]),
              writes(Role::scratch, homes_.scratch),
              writes(Role::work, work_object(b, op == Op::forward ? block(b).forward_work
                                                                  : block(b).recompute_work))});
    run.block = b;
    run.micro = micro;
    run.cost = op == Op::forward ? block(b).forward : block(b).recompute;
    return saved;
  }

  void send_input(int layer, int micro) {
    host_inputs_[at(layer)] =
        object(Tier::host, Purpose::activations, work_.input, fmt::format("input {}", layer));
    Task& send = task(Op::send_input, Lane::down,
                      {reads(Role::input, inputs_[at(layer)]),
                       writes(Role::host_input, host_inputs_[at(layer)])});
    send.block = layer + 1;
    send.micro = micro;
    send.moved = work_.input;
  }

  void fetch_input(int layer, int micro) {
    if (layer < 0 || layer >= choices_.host_inputs || layer >= layers_) return;
    inputs_[at(layer)] = new_input(layer);
    Task& fetch = task(Op::fetch_input, Lane::up,
                       {reads(Role::host_input, host_inputs_[at(layer)]),
                        writes(Role::input, inputs_[at(layer)])});
    fetch.block = layer + 1;
    fetch.micro = micro;
    fetch.moved = work_.input;
  }

  void backward_pass(int micro) {
    fetch_input(layers_ - 1, micro);
    run_head(micro);
    for (int layer = layers_ - 1; layer >= 0; --layer) {
      fetch_input(layer - 1, micro);  // one block ahead of its use
      const int b = layer + 1;
      if (layer < choices_.recompute_blocks) {
        saved_[at(layer)] = run_block(Op::recompute, layer, micro, -1);
      }
      gradients_[at(b)] = new_gradient(b, micro);
      Task& back =
          task(Op::backward, Lane::compute,
               {reads(Role::weights, homes_.weights[at(b)]), reads(Role::input, inputs_[at(layer)]),
                reads(Role::tables, homes_.tables), writes(Role::saved, saved_[at(layer)]),
                reads(Role::kept, kept_[at(layer)]), writes(Role::residual, residual_),
                writes(Role::gradient, gradients_[at(b)]), writes(Role::scratch, homes_.scratch),
                writes(Role::work, work_object(b, block(b).backward_work))});
      back.block = b;
      back.micro = micro;
      back.cost = block(b).backward;
      if (keeps(layer)) back.cost -= block(b).made_again;
      collect_gradient(b, micro);
    }
    gradients_[0] = new_gradient(0, micro);
    Task& back = task(Op::embed_backward, Lane::compute,
                      {reads(Role::batch, batch_), reads(Role::residual, residual_),
                       writes(Role::tied_sum, tied_sum_), writes(Role::gradient, gradients_[0]),
                       writes(Role::scratch, homes_.scratch),
                       writes(Role::work, work_object(0, block(0).backward_work))});
    back.block = 0;
    back.micro = micro;
    back.cost = block(0).backward;
    collect_gradient(0, micro);
  }

  void run_head(int micro) {
    // Only the last backward pass meets the tide. An earlier one stays at the low end, clear of the
    // states that are still on their way out.
    const End end = micro == last_micro() ? End::high : End::low;
    residual_ = object(Tier::device, Purpose::activations, work_.input, "residual gradient", end);
    tied_sum_ = object(Tier::device, Purpose::gradients, work_.tied_sum, "tied sum", end);
    gradients_[at(head())] = new_gradient(head(), micro);
    const bool tied = work_.tied_sum > 0;
    Task& run = task(Op::head, Lane::compute,
                     {reads(Role::weights, homes_.weights[at(head())]),
                      reads(Role::head_weights, tied ? homes_.weights[0] : -1),
                      reads(Role::input, inputs_[at(layers_)]), reads(Role::batch, batch_),
                      writes(Role::residual, residual_), writes(Role::tied_sum, tied_sum_),
                      writes(Role::gradient, gradients_[at(head())]), writes(Role::report, report_),
                      writes(Role::scratch, homes_.scratch),
                      writes(Role::work, work_object(head(), block(head()).backward_work))});
    run.block = head();
    run.micro = micro;
    run.cost = block(head()).forward;
    run.cost += block(head()).backward;
    collect_gradient(head(), micro);
  }

  // A step's gradients stay until the updates; a micro-batch's alone is gone right after it was
  // added to the sum. Of two, the first is the sum until then.
  ObjectId new_gradient(int b, int micro) {
    if (first_is_sum() && micro == 0 && has_device_site(b)) return sums_[at(b)] = new_sum(b);
    const ObjectId id =
        object(Tier::device, Purpose::gradients, block(b).parameters * work_.gradient_bytes,
               block(b).name + " gradient", micro == last_micro() ? tide_.gradients : End::low);
    program_.objects.back().cells = static_cast<int>(cells_[at(b)].size());
    return id;
  }

  ObjectId new_sum(int b) {
    const ObjectId id =
        object(Tier::device, Purpose::gradients, block(b).parameters * work_.sum_bytes(),
               block(b).name + " sum", End::high);
    program_.objects.back().cells = static_cast<int>(cells_[at(b)].size());
    return id;
  }

  void collect_gradient(int b, int micro) {
    if (block(b).parameters == 0) return;
    const bool last = micro == last_micro();
    const ObjectId gradient = gradients_[at(b)];
    if (summed() && !first_is_sum() && micro == 0 && has_device_site(b)) {
      sums_[at(b)] = new_sum(b);
    }
    // With one micro-batch the gradient is final on the device, whatever the site.
    if (!summed() || (has_device_site(b) && gradient != sums_[at(b)])) {
      Task& collect =
          task(last ? Op::finish_gradient : Op::add_gradient, Lane::compute,
               {last ? writes(Role::gradient, gradient) : reads(Role::gradient, gradient),
                last ? reads(Role::sum, sums_[at(b)]) : writes(Role::sum, sums_[at(b)]),
                writes(Role::report, last ? report_ : -1)});
      collect.block = b;
      collect.micro = micro;
      collect.cost.bytes = static_cast<double>(block(b).parameters) *
                           static_cast<double>(work_.gradient_bytes + 2 * work_.sum_bytes());
    }
    for (const int c : cells_[at(b)]) {
      if (chunk(c).site == Site::host) collect_on_host(c, micro);
    }
  }

  void collect_on_host(int c, int micro) {
    const bool last = micro == last_micro();
    const Bytes bytes = chunk(c).count * work_.gradient_bytes;
    const bool is_sum = first_is_sum() && micro == 0;
    host_gradients_[at(c)] = object(Tier::host, Purpose::gradients, bytes,
                                    fmt::format("chunk {} {}", c, is_sum ? "sum" : "gradient"));
    if (is_sum) host_sums_[at(c)] = host_gradients_[at(c)];
    Task& send = task(Op::send_gradient, Lane::down,
                      {reads(Role::gradient, gradients_[at(chunk(c).block)], chunk(c).cell),
                       writes(Role::host_gradient, host_gradients_[at(c)])});
    send.chunk = c;
    send.block = chunk(c).block;
    send.micro = micro;
    send.moved = bytes;
    if (!summed() || is_sum) return;
    if (micro == 0) {
      host_sums_[at(c)] = object(Tier::host, Purpose::gradients, chunk(c).count * work_.sum_bytes(),
                                 fmt::format("chunk {} sum", c));
    }
    Task& add = task(last ? Op::host_finish_gradient : Op::host_add_gradient, Lane::host,
                     {last ? writes(Role::host_gradient, host_gradients_[at(c)])
                           : reads(Role::host_gradient, host_gradients_[at(c)]),
                      last ? reads(Role::host_sum, host_sums_[at(c)])
                           : writes(Role::host_sum, host_sums_[at(c)]),
                      writes(Role::host_squares, last ? host_squares_ : -1)});
    add.chunk = c;
    add.block = chunk(c).block;
    add.micro = micro;
    add.moved = chunk(c).count * (work_.gradient_bytes + 2 * work_.sum_bytes());
  }

  // The report and the scale ride on the compute lane: they are small, and the copy lanes' queues
  // are long just then.
  void decide_scale() {
    Task& gather =
        task(Op::gather_report, Lane::compute,
             {reads(Role::report, report_), writes(Role::host_report, homes_.host_report)});
    gather.moved = report_bytes_;
    Task& norm =
        task(Op::norm, Lane::host,
             {writes(Role::host_report, homes_.host_report),
              reads(Role::host_squares, host_squares_), writes(Role::host_scale, host_scale_)});
    norm.moved = 2 * report_bytes_;
    Task& spread = task(Op::spread_scale, Lane::compute,
                        {reads(Role::host_scale, host_scale_), writes(Role::scale, scale_)});
    spread.moved = 8;
  }

  // Streamed ones first: their way out is long, and the next forward pass needs their memory.
  void update_chunks() {
    for (const Site site : {Site::stream, Site::resident, Site::host}) {
      for (int c = 0; c < static_cast<int>(program_.chunks.size()); ++c) {
        if (chunk(c).site != site) continue;
        if (site == Site::host) {
          update_on_host(c);
        } else {
          update_on_device(c);
        }
      }
    }
  }

  void update_on_device(int c) {
    const Bytes state_bytes = work_.state_bytes(chunk(c).count);
    const bool streamed = chunk(c).site == Site::stream;
    const ObjectId state = streamed ? object(Tier::device, Purpose::states, state_bytes,
                                             fmt::format("chunk {} state", c), End::high)
                                    : homes_.states[at(c)];
    if (streamed) {
      Task fetch{
          .op = Op::fetch_state,
          .lane = Lane::up,
          .block = chunk(c).block,
          .chunk = c,
          .moved = state_bytes,
          .uses = {reads(Role::host_state, homes_.states[at(c)]), writes(Role::state, state)}};
      fetches_.push_back({std::move(fetch), static_cast<TaskId>(program_.tasks.size())});
    }
    Task& update = task(Op::update, Lane::compute,
                        {writes(Role::weights, homes_.weights[at(chunk(c).block)], chunk(c).cell),
                         reads(Role::gradient, gradients_[at(chunk(c).block)], chunk(c).cell),
                         writes(Role::state, state), reads(Role::scale, scale_)});
    update.block = chunk(c).block;
    update.chunk = c;
    update.cost.bytes =
        static_cast<double>(2 * (state_bytes + chunk(c).count * work_.weight_bytes) +
                            chunk(c).count * work_.gradient_bytes);
    if (!streamed) return;
    Task& send = task(Op::send_state, Lane::down,
                      {reads(Role::state, state), writes(Role::host_state, homes_.states[at(c)])});
    send.block = chunk(c).block;
    send.chunk = c;
    send.moved = state_bytes;
  }

  void update_on_host(int c) {
    const Bytes weight_bytes = chunk(c).count * work_.weight_bytes;
    Task& update = task(Op::host_update, Lane::host,
                        {reads(Role::host_gradient, host_gradients_[at(c)]),
                         writes(Role::host_state, homes_.states[at(c)]),
                         writes(Role::host_weights, homes_.host_weights[at(c)]),
                         reads(Role::host_scale, host_scale_)});
    update.block = chunk(c).block;
    update.chunk = c;
    update.moved = 2 * (work_.state_bytes(chunk(c).count) + weight_bytes) +
                   chunk(c).count * work_.gradient_bytes;
    Task& send = task(Op::send_weight, Lane::up,
                      {reads(Role::host_weights, homes_.host_weights[at(c)]),
                       writes(Role::weights, homes_.weights[at(chunk(c).block)], chunk(c).cell)});
    send.block = chunk(c).block;
    send.chunk = c;
    send.moved = weight_bytes;
  }

  const Workload& work_;
  const Choices& choices_;
  const Tide& tide_;
  const int layers_;
  Program program_;
  Homes& homes_ = program_.homes;
  std::vector<std::vector<int>> cells_;  // the chunks of each block
  std::vector<Fetch> fetches_;

  Bytes report_bytes_ = 0;
  ObjectId report_ = -1, scale_ = -1, host_squares_ = -1, host_scale_ = -1;
  std::vector<ObjectId> sums_, gradients_;            // by block
  std::vector<ObjectId> host_sums_, host_gradients_;  // by chunk
  // Of the micro-batch that is being built:
  std::vector<ObjectId> inputs_, host_inputs_, saved_, kept_;  // by layer
  ObjectId batch_ = -1, residual_ = -1, tied_sum_ = -1;
};

}  // namespace

Program build_training(const Workload& workload, const Choices& choices, const Tide& tide) {
  return TrainingBuilder(workload, choices, tide).build();
}

}  // namespace ebb::plan
