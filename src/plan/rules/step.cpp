#include "plan/rules/step.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/route.h"

namespace ebb::plan {

Step::Step(const Workload& w, const Choices& c, const Tide& t) : work(w), choices(c), tide(t) {
  program.topology = work.topology;
  program.chunks = cut_chunks(work, choices);
  chunks_of.resize(work.blocks.size());
  for (int i = 0; i < chunks(); ++i) chunks_of[at(chunk(i).block)].push_back(i);
  weights.assign(work.blocks.size(), -1);
  inputs = saved = kept = gradients = weights;
  for (const Block& b : work.blocks) {
    layer_of_.push_back(b.kind == BlockKind::layer ? layers_++ : -1);
  }
  finished.resize(program.chunks.size());
  finished_by.assign(program.chunks.size(), 0);
  scale.fill(-1);
  std::int64_t sums = 0;
  for (const Block& b : work.blocks) {
    for (const TensorRange& tensor : b.tensors) {
      sums += (tensor.count + work.norm_block - 1) / work.norm_block;
    }
  }
  report_bytes_ = 8 * (work.micro_batches + sums);
}

ObjectId Step::object(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
  return object(tier, purpose, bytes, std::move(name), {});
}

ObjectId Step::object(Tier tier, Purpose purpose, Bytes bytes, std::string name, Placing placing) {
  const Bytes alignment = (*program.topology)[tier].alignment;
  program.objects.push_back({.tier = tier,
                             .purpose = purpose,
                             .end = placing.end,
                             .bytes = align_up(bytes, alignment),
                             .alignment = alignment,
                             .stream = placing.stream,
                             .name = std::move(name)});
  return static_cast<ObjectId>(program.objects.size()) - 1;
}

ObjectId Step::persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
  const ObjectId id = object(tier, purpose, bytes, std::move(name));
  program.objects.back().persistent = true;
  return id;
}

int Step::stream(std::string name) {
  program.streams.push_back({std::move(name), static_cast<int>(choices.depth)});
  return static_cast<int>(program.streams.size()) - 1;
}

Task& Step::add(Task task) {
  std::erase_if(task.uses,
                [&](const Use& use) { return use.object < 0 || program[use.object].bytes == 0; });
  program.tasks.push_back(std::move(task));
  return program.tasks.back();
}

Task& Step::compute(Op op, int block, std::vector<Use> uses) {
  return add({.op = op, .block = block, .micro = micro, .uses = std::move(uses)});
}

Task& Step::on_cpu(Op op, Draw draw, std::vector<Use> uses) {
  return add({.op = op, .lane = Lane::host, .draw = draw, .uses = std::move(uses)});
}

Task& Step::transfer(Part from, Part to, Traffic traffic) {
  return add(
      transfer_task(program, reads(Role::source, from), writes(Role::destination, to), traffic));
}

Fetch& Step::fetch(Part from, Part to) {
  fetches.push_back(
      {.task = transfer_task(program, reads(Role::source, from), writes(Role::destination, to))});
  return fetches.back();
}

}  // namespace ebb::plan
