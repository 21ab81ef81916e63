#include "plan/generation_program.h"

#include <algorithm>
#include <iterator>

#include "plan/route.h"

namespace ebb::plan {
namespace {

class GenerationBuilder {
 public:
  GenerationBuilder(const Workload& work, const Program* first) : work_(work) {
    program_.topology = work.topology;
    if (first == nullptr) {
      add_persistent();
      return;
    }
    program_.persistent = first->persistent;
    std::ranges::copy_if(first->objects, std::back_inserter(program_.objects), &Object::persistent);
  }

  Program build() {
    const ObjectId tokens = object(Purpose::batch, work_.batch, "tokens");
    transfer({Role::source, program_.persistent.batches[0], Access::read, {0, work_.batch}},
             {Role::destination, tokens, Access::write});
    program_.tasks.back().argument = kTokenBytes;
    ObjectId input = -1;
    for (std::size_t b = 0; b < work_.blocks.size(); ++b) {
      switch (work_.blocks[b].kind) {
        case BlockKind::embedding: input = embed(b, tokens); break;
        case BlockKind::layer: input = decode(b, input); break;
        case BlockKind::head: logits(b, input); break;
      }
    }
    route(program_, static_cast<int>(Choices::kLeastDepth));
    program_.find_lifetimes();
    return std::move(program_);
  }

 private:
  void add_persistent() {
    PersistentObjects& objects = program_.persistent;
    for (const Block& block : work_.blocks) {
      objects.weights.push_back(persistent(Tier::device, Purpose::weights,
                                           block.weights.bytes(block.parameters),
                                           block.name + " weights"));
      objects.caches.push_back(block.cache > 0 ? persistent(Tier::device, Purpose::cache,
                                                            block.cache, block.name + " cache")
                                               : -1);
    }
    objects.scratch = persistent(Tier::device, Purpose::workspace, work_.scratch, "scratch");
    objects.tables = persistent(Tier::device, Purpose::workspace, work_.tables, "tables");
    objects.batches = {persistent(Tier::host, Purpose::batch, work_.batch, "tokens")};
    objects.report = persistent(Tier::host, Purpose::workspace, work_.logits, "logits");
  }

  ObjectId embed(std::size_t b, ObjectId tokens) {
    const ObjectId output = object(Purpose::activations, work_.input, "input");
    embedding_ = program_.persistent.weights[b];
    add(Op::embed, b,
        {{Role::weights, embedding_, Access::read},
         {Role::batch, tokens, Access::read},
         {Role::output, output, Access::write}});
    program_.tasks.back().names_block = false;
    return output;
  }

  ObjectId decode(std::size_t b, ObjectId input) {
    const PersistentObjects& objects = program_.persistent;
    const ObjectId output = object(Purpose::activations, work_.input, "input");
    add(Op::decode, b,
        {{Role::weights, objects.weights[b], Access::read},
         {Role::input, input, Access::read},
         {Role::output, output, Access::write},
         {Role::cache, objects.caches[b], Access::write},
         {Role::tables, objects.tables, Access::read},
         {Role::scratch, objects.scratch, Access::write},
         {Role::work, object(Purpose::workspace, work_.blocks[b].forward_work, "work"),
          Access::write}});
    return output;
  }

  void logits(std::size_t b, ObjectId input) {
    const PersistentObjects& objects = program_.persistent;
    const ObjectId logits = object(Purpose::workspace, work_.logits, "logits");
    add(Op::logits, b,
        {{Role::weights, objects.weights[b], Access::read},
         {Role::head_weights, embedding_, Access::read},
         {Role::input, input, Access::read},
         {Role::scratch, objects.scratch, Access::write},
         {Role::work, object(Purpose::workspace, work_.blocks[b].forward_work, "work"),
          Access::write},
         {Role::logits, logits, Access::write}});
    program_.tasks.back().names_block = false;
    transfer({Role::source, logits, Access::read, {0, work_.logits}},
             {Role::destination, objects.report, Access::write});
  }

  ObjectId object(Purpose purpose, Bytes bytes, std::string name, Tier tier = Tier::device) {
    program_.objects.push_back(
        {.tier = tier, .purpose = purpose, .bytes = align_up(bytes), .name = std::move(name)});
    return static_cast<ObjectId>(program_.objects.size()) - 1;
  }
  ObjectId persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
    const ObjectId id = object(purpose, bytes, std::move(name), tier);
    program_.objects.back().persistent = true;
    return id;
  }

  void add(Op op, std::size_t block, List<Use> uses) {
    std::erase_if(
        uses, [&](const Use& use) { return use.object < 0 || program_[use.object].bytes == 0; });
    program_.tasks.push_back({.op = op,
                              .block = static_cast<int>(block),
                              .cost = work_.blocks[block].forward,
                              .uses = std::move(uses)});
  }
  // A token waits for them: they must not queue behind anything.
  void transfer(Use source, Use destination) {
    program_.tasks.push_back(transfer_task(program_, source, destination, Traffic::express));
  }

  const Workload& work_;
  Program program_;
  ObjectId embedding_ = -1;  // its weights, which may be the head's, too
};

}  // namespace

Program build_generation(const Workload& work, const Program* first) {
  return GenerationBuilder(work, first).build();
}

}  // namespace ebb::plan
