#include "plan/rules/step.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/route.h"

namespace ebb::plan {

Step::Step(const Workload& w, const Choices& c, const Tide& t) : work(w), choices(c), tide(t) {
  program.topology = work.topology;
  program.chunks = cut_chunks(work, choices);
  chunks_of.resize(work.blocks.size());
  for (int i = 0; i < chunks(); ++i) chunks_of[chunk(i).block].push_back(i);
  weights.assign(work.blocks.size(), -1);
  inputs = saved = saved_mlp = cheap_saved = gradients = weights;
  for (const Block& b : work.blocks) {
    layer_of_.push_back(b.kind == BlockKind::layer ? layers_++ : -1);
  }
  finished.resize(program.chunks.size());
  finished_by.assign(program.chunks.size(), 0);
  scale.fill(-1);
}

TensorRange Step::at_hand(int b) const {
  if (piece < 0 || !is_cut(b)) return {0, block(b).parameters};
  const BlockPiece& its = block(b).pieces[piece];
  return {its.first, its.count};
}

std::string Step::name_of(int b) const {
  if (piece < 0 || !is_cut(b)) return block(b).name;
  return fmt::format("{} piece {}", block(b).name, piece);
}

List<int> Step::chunks_at_hand(int b) const {
  const TensorRange all = at_hand(b);
  List<int> found;
  for (const int c : chunks_of[b]) {
    const std::int64_t first = chunk(c).first - all.first;
    if (first >= 0 && first < all.count) found.push_back(c);
  }
  return found;
}

List<Use> Step::reads_weights(Role role, int b) const {
  const ObjectId object = weights[b];
  const TensorRange all = at_hand(b);
  if (object < 0 || !program[object].persistent || all.count == block(b).parameters) {
    return {reads(role, object)};
  }
  List<Use> uses;
  for (const Range& range : block(b).weights.ranges(block(b).parameters, all.first, all.count)) {
    uses.push_back(reads(role, object, range));
  }
  return uses;
}

int Step::table() const {
  return work.all_of(work.tied_sum > 0 ? BlockKind::embedding : BlockKind::head).front();
}

// Its last piece is the norm.
int Step::vocabulary_pieces() const {
  const int head = work.all_of(BlockKind::head).front();
  return static_cast<int>(block(head).pieces.size()) - 1;
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

Task& Step::compute(Op op, int block, List<Use> uses) {
  return add({.op = op, .block = block, .micro = micro, .piece = piece, .uses = std::move(uses)});
}

Task& Step::on_cpu(Op op, Draw draw, List<Use> uses) {
  return add({.op = op, .lane = Lane::host, .draw = draw, .uses = std::move(uses)});
}

Task& Step::on_network(Op op, int block, List<Use> uses) {
  return add({.op = op,
              .lane = program.topology->network().value(),
              .draw = Draw::nothing,
              .block = block,
              .piece = piece,
              .uses = std::move(uses)});
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
