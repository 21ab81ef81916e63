#include "plan/generation_program.h"

namespace ebb::plan {
namespace {

class GenerationBuilder {
 public:
  explicit GenerationBuilder(const GenerationWork& work) : work_(work) {}

  Program build() {
    Homes& homes = program_.homes;
    const std::size_t blocks = work_.parameters.size();
    for (std::size_t b = 0; b < blocks; ++b) {
      homes.weights.push_back(object(Tier::device, Purpose::weights,
                                     work_.parameters[b] * work_.weight_bytes,
                                     work_.names[b] + " weights", true));
    }
    for (std::size_t b = 1; b + 1 < blocks; ++b) {
      homes.caches.push_back(
          object(Tier::device, Purpose::activations, work_.cache, work_.names[b] + " cache", true));
    }
    homes.scratch = object(Tier::device, Purpose::workspace, work_.scratch, "scratch", true);
    homes.tables = object(Tier::device, Purpose::workspace, work_.tables, "tables", true);
    homes.host_batches = {object(Tier::host, Purpose::batch, work_.tokens, "tokens", true)};
    homes.host_report = object(Tier::host, Purpose::workspace, work_.logits, "logits", true);

    const ObjectId tokens = object(Tier::device, Purpose::batch, work_.tokens, "tokens");
    add(Op::load_tokens, -1,
        {{Role::host_batch, homes.host_batches[0], Access::read},
         {Role::batch, tokens, Access::write}});
    ObjectId input = object(Tier::device, Purpose::activations, work_.input, "input");
    add(Op::embed, 0,
        {{Role::weights, homes.weights[0], Access::read},
         {Role::batch, tokens, Access::read},
         {Role::output, input, Access::write}});
    for (std::size_t b = 1; b + 1 < blocks; ++b) {
      const ObjectId output = object(Tier::device, Purpose::activations, work_.input, "input");
      add(Op::decode, static_cast<int>(b),
          {{Role::weights, homes.weights[b], Access::read},
           {Role::input, input, Access::read},
           {Role::output, output, Access::write},
           {Role::saved, homes.caches[b - 1], Access::write},
           {Role::tables, homes.tables, Access::read},
           {Role::scratch, homes.scratch, Access::write},
           {Role::work, object(Tier::device, Purpose::workspace, work_.work, "work"),
            Access::write}});
      input = output;
    }
    // The last work of all holds the logits too, on their way to the host.
    add(Op::logits, static_cast<int>(blocks) - 1,
        {{Role::weights, homes.weights.back(), Access::read},
         {Role::head_weights, homes.weights.front(), Access::read},
         {Role::input, input, Access::read},
         {Role::scratch, homes.scratch, Access::write},
         {Role::work, object(Tier::device, Purpose::workspace, work_.work, "work"), Access::write},
         {Role::host_report, homes.host_report, Access::write}});
    program_.find_lifetimes();
    return std::move(program_);
  }

 private:
  ObjectId object(Tier tier, Purpose purpose, Bytes bytes, std::string name,
                  bool persistent = false) {
    program_.objects.push_back({.tier = tier,
                                .purpose = purpose,
                                .persistent = persistent,
                                .bytes = align_up(bytes),
                                .name = std::move(name)});
    return static_cast<ObjectId>(program_.objects.size()) - 1;
  }

  void add(Op op, int block, std::vector<Use> uses) {
    program_.tasks.push_back({.op = op, .block = block, .uses = std::move(uses)});
  }

  const GenerationWork& work_;
  Program program_;
};

}  // namespace

Program build_generation(const GenerationWork& work) { return GenerationBuilder(work).build(); }

}  // namespace ebb::plan
