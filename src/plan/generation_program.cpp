#include "plan/generation_program.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "plan/route.h"
#include "plan/scheduler.h"

namespace ebb::plan {
namespace {

Tier tier_of(Processor processor) {
  return processor == Processor::cpu ? Tier::host : Tier::device;
}

class GenerationBuilder {
 public:
  GenerationBuilder(const Workload& work, const GenerationChoices& choices, Phase phase,
                    const Program* first)
      : work_(work), choices_(choices), phase_(phase), places_(place_blocks(work, choices)) {
    program_.topology = work.topology;
    if (first == nullptr) {
      add_persistent();
      return;
    }
    program_.persistent = first->persistent;
    std::ranges::copy_if(first->objects, std::back_inserter(program_.objects), &Object::persistent);
  }

  Program build() {
    take_tokens();
    for (int b = 0; b < work_.blocks.count(); ++b) {
      const Block& block = work_.blocks[b];
      if (block.kind == BlockKind::embedding) {
        embed(b);
      } else if (block.kind == BlockKind::head) {
        logits(b);
      } else if (block.half == LayerHalf::attention) {
        b = decode(b);
      } else {
        throw std::logic_error("generation places the halves of a layer apart");
      }
    }
    choose_tokens();
    place_fetches(program_, std::move(fetches_), {}, Arrival::first_first);
    route(program_, static_cast<int>(choices_.depth));
    program_.find_lifetimes();
    return std::move(program_);
  }

 private:
  // A block's weights as the task that computes with them uses them.
  struct Weights {
    ObjectId object = -1;
    bool fetched = false;
  };

  const Block& block(int b) const { return work_.blocks[b]; }
  Processor processor(int b) const {
    const BlockPlace& place = places_[b];
    return phase_ == Phase::prompt ? place.prompt : place.token;
  }
  Bytes weight_bytes(int b) const { return block(b).weights.bytes(block(b).parameters); }

  void add_persistent() {
    PersistentObjects& objects = program_.persistent;
    PerTier<bool> computes, attends;  // in any of the phases
    for (int b = 0; b < work_.blocks.count(); ++b) {
      const BlockPlace& place = places_[b];
      objects.weights.push_back(
          persistent(place.home, Purpose::weights, weight_bytes(b), block(b).name + " weights"));
      objects.caches.push_back(
          block(b).cache > 0
              ? persistent(place.cache, Purpose::cache, block(b).cache, block(b).name + " cache")
              : -1);
      for (const Processor by : {place.prompt, place.token}) {
        computes[tier_of(by)] = true;
        if (block(b).half == LayerHalf::attention) attends[tier_of(by)] = true;
      }
    }
    const auto workspace = [&](Tier tier, bool wanted, Bytes bytes, const char* name) {
      return wanted ? persistent(tier, Purpose::workspace, bytes, name) : -1;
    };
    objects.scratch = workspace(Tier::device, computes[Tier::device], work_.scratch, "scratch");
    objects.tables = workspace(Tier::device, attends[Tier::device], work_.tables, "tables");
    objects.host_scratch =
        workspace(Tier::host, computes[Tier::host], work_.host_scratch, "scratch");
    objects.host_tables = workspace(Tier::host, attends[Tier::host], work_.tables, "tables");
    objects.batches = {persistent(Tier::host, Purpose::batch, work_.batch, "tokens")};
    objects.report =
        persistent(Tier::host, Purpose::workspace, work_.sequences * work_.logits, "logits");
  }

  // Both are the host's own, whoever computes: they need no ops and none of their scratch.
  void take_tokens() {
    add_on_host(Op::take_tokens,
                {Role::batch, program_.persistent.batches[0], Access::write, {0, work_.batch}});
  }
  void choose_tokens() {
    add_on_host(Op::choose_tokens,
                {Role::logits, program_.persistent.report, Access::read, {0, logit_bytes()}});
  }
  void add_on_host(Op op, const Use& use) {
    program_.tasks.push_back({.op = op, .lane = Lane::host, .draw = Draw::nothing, .uses = {use}});
    program_.tasks.back().names_block = false;
  }
  // Sequences that a run takes further, and all of their logits.
  std::int64_t run_sequences() const { return phase_ == Phase::prompt ? 1 : work_.sequences; }
  Bytes logit_bytes() const { return run_sequences() * work_.logits; }

  // The residual stream is made by the embedding, and then goes from task to task.
  void embed(int b) {
    const Processor by = processor(b);
    ObjectId tokens = program_.persistent.batches[0];
    if (by == Processor::device) {
      tokens = object(Tier::device, Purpose::batch, work_.batch, "tokens");
      cross({program_.persistent.batches[0], {0, work_.batch}}, tokens, kTokenBytes);
    }
    embedding_ = program_.persistent.weights[b];
    stream_ = object(tier_of(by), Purpose::activations, work_.input, "input");
    add(Op::embed, b, by, block(b).forward,
        {{Role::weights, embedding_, Access::read},
         {Role::batch, tokens, Access::read},
         {Role::output, stream_, Access::write}});
    program_.tasks.back().names_block = false;
  }

  // A layer, from its attention on; returns its last block.
  int decode(int attention) {
    const int mlp = attention + 1;
    const Processor by = processor(attention);
    const Weights own = weights(attention, by);
    const Weights next = by == processor(mlp) ? weights(mlp, by) : Weights{-1, true};
    // One task, unless the second half's weights may still be on their way when the first could
    // start, or it is another processor's.
    if (!own.fetched && !next.fetched) {
      Cost cost = block(attention).forward;
      cost += block(mlp).forward;
      const ObjectId middle = object(tier_of(by), Purpose::activations, work_.input, "middle");
      const Bytes work = std::max(block(attention).forward_work, block(mlp).forward_work);
      attend(
          Op::decode, attention, by, own, cost, work,
          {{Role::mlp_weights, next.object, Access::read}, {Role::middle, middle, Access::write}});
    } else {
      attend(Op::attend, attention, by, own, block(attention).forward,
             block(attention).forward_work, {});
      const Processor then = processor(mlp);
      const Weights its = by == then ? next : weights(mlp, then);
      const ObjectId input = input_for(then);
      stream_ = object(tier_of(then), Purpose::activations, work_.input, "input");
      add(Op::mlp, mlp, then, block(mlp).forward,
          {{Role::weights, its.object, Access::read},
           {Role::input, input, Access::read},
           {Role::output, stream_, Access::write},
           {Role::work, work_object(then, block(mlp).forward_work), Access::write}});
    }
    return mlp;
  }

  void attend(Op op, int b, Processor by, const Weights& own, const Cost& cost, Bytes work,
              const List<Use>& more) {
    const PersistentObjects& objects = program_.persistent;
    const ObjectId kept = objects.caches[b];
    const bool comes = program_[kept].tier != tier_of(by);
    const ObjectId cache = comes ? bring_caches(b, tier_of(by)) : kept;
    const ObjectId input = input_for(by);
    stream_ = object(tier_of(by), Purpose::activations, work_.input, "input");
    List<Use> uses = {
        {Role::weights, own.object, Access::read},
        {Role::input, input, Access::read},
        {Role::output, stream_, Access::write},
        {Role::cache, cache, Access::write},
        {Role::tables, by == Processor::cpu ? objects.host_tables : objects.tables, Access::read},
        {Role::work, work_object(by, work), Access::write}};
    uses.insert(uses.end(), more.begin(), more.end());
    add(op, b, by, cost, std::move(uses));
    // The rows of these tokens go to where all are.
    for (std::int64_t s = 0; comes && s < run_sequences(); ++s) {
      Task task = rows({cache, cache_range(b, s)}, {kept, cache_range(b, s)}, b);
      const bool prompt = phase_ == Phase::prompt;
      task.argument = prompt ? kAddedBytes : added_bytes(s);
      task.source_offset = prompt ? kCacheBytes : cached_bytes(s);
      task.destination_offset = prompt ? kCacheEnd : cached_bytes(s);
      task.usual = block(b).cache_added;
      program_.tasks.push_back(std::move(task));
    }
  }

  // The rows of a sequence. A prompt may be any one's, which the run says: it has the first one's
  // range here, in all of its tasks, so that runs wait for each other as if all were of that one.
  Range cache_range(int b, std::int64_t sequence) const {
    const Bytes each = block(b).cache / work_.sequences;
    return {sequence * each, each};
  }

  // The rows of the tokens before come to the processor that attends.
  ObjectId bring_caches(int b, Tier tier) {
    const ObjectId here =
        object(tier, Purpose::cache, block(b).cache / work_.sequences * run_sequences(),
               block(b).name + " cache");
    program_.objects.back().stream = stream("cache", caches_);
    for (std::int64_t s = 0; s < run_sequences(); ++s) {
      Task task =
          rows({program_.persistent.caches[b], cache_range(b, s)}, {here, cache_range(b, s)}, b);
      task.argument = phase_ == Phase::prompt ? kCacheBytes : cached_bytes(s);
      if (phase_ == Phase::prompt) task.source_offset = kCacheStart;
      task.usual = block(b).cached;
      fetches_.push_back({.task = std::move(task)});
    }
    return here;
  }
  Task rows(const Part& from, const Part& to, int b) const {
    Task task = transfer_task(program_, {Role::source, from.object, Access::read, from.range},
                              {Role::destination, to.object, Access::write, to.range});
    task.block = b;
    return task;
  }

  // On the processor's tier: where they live, or a place that they come to behind the computing.
  Weights weights(int b, Processor by) {
    const ObjectId home = program_.persistent.weights[b];
    if (home < 0 || program_[home].bytes == 0 || program_[home].tier == tier_of(by)) return {home};
    const Bytes bytes = weight_bytes(b);
    const ObjectId here = object(tier_of(by), Purpose::weights, bytes, block(b).name + " weights");
    Object& object = program_.objects.back();
    object.end = End::high;
    object.stream = by == Processor::cpu ? stream("weights of the CPU", host_weights_)
                                         : stream("weights", weights_);
    fetches_.push_back({.task = rows({home, {0, bytes}}, {here, {0, bytes}}, b)});
    return {here, true};
  }

  void logits(int b) {
    const PersistentObjects& objects = program_.persistent;
    const Processor by = processor(b);
    const bool on_host = by == Processor::cpu;
    const ObjectId input = input_for(by);
    const ObjectId made = on_host
                              ? objects.report
                              : object(Tier::device, Purpose::workspace, logit_bytes(), "logits");
    add(Op::logits, b, by, block(b).forward,
        {{Role::weights, objects.weights[b], Access::read},
         {Role::head_weights, work_.tied ? embedding_ : -1, Access::read},
         {Role::input, input, Access::read},
         {Role::work, work_object(by, block(b).forward_work), Access::write},
         {Role::logits, made, Access::write, {0, logit_bytes()}}});
    program_.tasks.back().names_block = false;
    if (!on_host) cross({made, {0, logit_bytes()}}, objects.report, kLogitBytes);
  }

  // The residual stream where the processor reads it.
  ObjectId input_for(Processor by) {
    if (program_[stream_].tier == tier_of(by)) return stream_;
    const ObjectId here = object(tier_of(by), Purpose::activations, work_.input, "input");
    cross({stream_, {0, work_.input}}, here, kStreamBytes);
    return stream_ = here;
  }

  ObjectId work_object(Processor by, Bytes bytes) {
    return object(tier_of(by), Purpose::workspace, bytes, "work");
  }
  ObjectId object(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
    const Bytes alignment = (*program_.topology)[tier].alignment;
    program_.objects.push_back({.tier = tier,
                                .purpose = purpose,
                                .bytes = align_up(bytes, alignment),
                                .alignment = alignment,
                                .name = std::move(name)});
    return static_cast<ObjectId>(program_.objects.size()) - 1;
  }
  ObjectId persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
    const ObjectId id = object(tier, purpose, bytes, std::move(name));
    program_.objects.back().persistent = true;
    return id;
  }
  // The stream of that name, made where there is none yet.
  int stream(const char* name, int& number) {
    if (number >= 0) return number;
    program_.streams.push_back({name, static_cast<int>(choices_.depth)});
    return number = static_cast<int>(program_.streams.size()) - 1;
  }

  void add(Op op, int b, Processor by, const Cost& cost, List<Use> uses) {
    const PersistentObjects& objects = program_.persistent;
    const bool on_host = by == Processor::cpu;
    uses.push_back(
        {Role::scratch, on_host ? objects.host_scratch : objects.scratch, Access::write});
    std::erase_if(
        uses, [&](const Use& use) { return use.object < 0 || program_[use.object].bytes == 0; });
    program_.tasks.push_back({.op = op,
                              .lane = on_host ? Lane::host : Lane::compute,
                              .draw = on_host ? Draw::block : Draw::compute,
                              .block = b,
                              .cost = cost,
                              .uses = std::move(uses)});
  }
  // A task waits for it: it must not queue behind anything.
  void cross(const Part& from, ObjectId to, int argument) {
    program_.tasks.push_back(
        transfer_task(program_, {Role::source, from.object, Access::read, from.range},
                      {Role::destination, to, Access::write}, Traffic::express));
    program_.tasks.back().argument = argument;
  }

  const Workload& work_;
  const GenerationChoices& choices_;
  Phase phase_;
  List<BlockPlace> places_;
  Program program_;
  List<Fetch> fetches_;
  ObjectId embedding_ = -1;  // its weights, which may be the head's, too
  ObjectId stream_ = -1;     // the residual stream, where it was made or came to last
  int weights_ = -1, host_weights_ = -1, caches_ = -1;  // streams
};

}  // namespace

Program build_generation(const Workload& work, const GenerationChoices& choices, Phase phase,
                         const Program* first) {
  return GenerationBuilder(work, choices, phase, first).build();
}

}  // namespace ebb::plan
