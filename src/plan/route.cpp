#include "plan/route.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"

namespace ebb::plan {
namespace {

Draw draw_of(Tier from, Tier to, Traffic traffic) {
  if (traffic == Traffic::express) return Draw::nothing;
  if (from == Tier::host && to == Tier::device) return Draw::up;
  if (from == Tier::device && to == Tier::host) return Draw::down;
  // A tier that is neither: what is read from it goes to host memory, what is written comes from
  // there.
  return to == Tier::host ? Draw::read : from == Tier::host ? Draw::write : Draw::nothing;
}

class Router {
 public:
  Router(Program& program, int depth) : program_(program), depth_(depth) {}

  void run() {
    const bool direct = std::all_of(program_.tasks.begin(), program_.tasks.end(),
                                    [&](const Task& task) { return is_direct(task); });
    if (direct) return;
    for (Task& task : std::exchange(program_.tasks, {})) {
      if (is_direct(task)) {
        program_.tasks.push_back(std::move(task));
      } else {
        cut(task);
      }
    }
  }

 private:
  const TierInfo& info(Tier tier) const { return (*program_.topology)[tier]; }
  Tier tier_of(const Use& use) const { return program_[use.object].tier; }

  bool is_direct(const Task& task) const {
    if (!task.is_transfer()) return true;
    const Tier from = tier_of(*task.find(Role::source));
    const Tier to = tier_of(*task.find(Role::destination));
    if (!program_.topology->link(from, to)) return false;
    for (const Tier tier : {from, to}) {
      const Bytes most = info(tier).largest_transfer;
      if (most > 0 && task.moved > most) return false;
      const Bytes grain = info(tier).addressable ? 1 : info(tier).alignment;
      for (const Use& use : task.uses) {
        const bool whole = use.range.first % grain == 0 && task.moved % grain == 0;
        if (!whole || program_[use.object].alignment % grain != 0) return false;
      }
    }
    return true;
  }

  // What goes at once: the least that any tier on the way can take.
  Bytes piece_of(const List<Tier>& way) const {
    Bytes piece = 0;
    for (const Tier tier : way) {
      const Bytes most = info(tier).largest_transfer;
      if (most > 0) piece = piece == 0 ? most : std::min(piece, most);
    }
    return piece > 0 ? piece : kStaging;
  }

  // The object of a tier is as long as its grain says, so a last piece may be rounded up there.
  void cut(const Task& task) {
    const Use& source = *task.find(Role::source);
    const Use& destination = *task.find(Role::destination);
    const List<Tier> way = program_.topology->route(tier_of(source), tier_of(destination));
    Bytes grain = kAlignment;
    for (const Tier tier : way) grain = std::max(grain, info(tier).alignment);
    const Bytes piece = align_up(piece_of(way), grain);
    for (Bytes done = 0; done < task.moved; done += piece) {
      const Bytes bytes = std::min(piece, task.moved - done);
      Use from = source;
      from.range = {source.range.first + done, bytes};
      for (std::size_t hop = 1; hop < way.size(); ++hop) {
        Use to = destination;
        to.range = {destination.range.first + done, bytes};
        auto number = to_size(done / piece);
        if (hop + 1 < way.size()) {
          to.object = staging(way[hop], align_up(bytes, grain), grain, way.front(), way.back());
          to.range = {0, bytes};
          number = 0;  // each piece has another one
        }
        add(task, from, to, number);
        from = {Role::source, to.object, Access::read, to.range};
      }
    }
  }

  void add(const Task& like, Use from, Use to, std::size_t number) {
    const Tier a = tier_of(from), b = tier_of(to);
    // A tier that gives and takes whole grains alone moves some bytes of padding with the last.
    Bytes grain = 1;
    for (const Tier tier : {a, b}) {
      if (!info(tier).addressable) grain = std::max(grain, info(tier).alignment);
    }
    const Bytes exact = from.range.bytes;
    const Bytes bytes = align_up(exact, grain);
    from.range.bytes = to.range.bytes = bytes;
    for (const Use* use : {&from, &to}) pad(use->object, use->range.first + bytes, grain);
    Task task = transfer_task(program_, from, to, Traffic::through, number);
    // Nobody may have written the padding of what leaves: the task has it for itself, as if it did,
    // or what others still do with those bytes would be no business of it.
    if (bytes > exact && info(a).addressable) {
      task.uses.push_back(
          {Role::source, from.object, Access::write, {from.range.first + exact, bytes - exact}});
    }
    task.block = like.block;
    task.micro = like.micro;
    task.chunk = like.chunk;
    program_.tasks.push_back(std::move(task));
  }

  // What trades whole grains has room for them, and starts at one.
  void pad(ObjectId id, Bytes end, Bytes grain) {
    Object& object = program_.objects[id];
    object.bytes = std::max(object.bytes, align_up(end));
    object.alignment = std::max(object.alignment, grain);
  }

  // What comes in takes turns in a few objects of its own: bytes that it shared with others would
  // keep it waiting for them. What goes out may wait long, each piece in an object of its own
  // (scheduler.h).
  ObjectId staging(Tier tier, Bytes bytes, Bytes alignment, Tier from, Tier to) {
    Stream& stream = streams_[std::pair(from, to)];
    const bool comes = info(to).addressable;
    if (comes && static_cast<int>(stream.objects.size()) == (depth_ + 2) / 2 * 2) {
      const ObjectId object = stream.objects[stream.next++ % stream.objects.size()];
      pad(object, bytes, alignment);
      return object;
    }
    if (!comes && stream.number < 0) {
      stream.number = static_cast<int>(program_.streams.size());
      program_.streams.push_back({fmt::format("{} to {}", info(from).name, info(to).name), depth_});
    }
    program_.objects.push_back({.tier = tier,
                                .purpose = Purpose::workspace,
                                .end = comes ? End::low : End::high,
                                .bytes = align_up(bytes),
                                .alignment = std::max(alignment, info(tier).alignment),
                                .stream = stream.number,
                                .name = "staging"});
    stream.objects.push_back(static_cast<ObjectId>(program_.objects.size()) - 1);
    return stream.objects.back();
  }

  static constexpr Bytes kStaging = 4 * kMiB;

  Program& program_;
  int depth_;
  struct Stream {
    int number = -1;  // of the program's
    List<ObjectId> objects{};
    std::size_t next = 0;
  };
  std::map<std::pair<Tier, Tier>, Stream> streams_;
};

}  // namespace

Task transfer_task(const Program& program, Use source, Use destination, Traffic traffic,
                   std::size_t number) {
  const Tier from = program[source.object].tier;
  const Tier to = program[destination.object].tier;
  const Range range = program.range_of(source);
  source.range = range;
  destination.range.bytes = range.bytes;
  const auto lane = program.topology->link(from, to, traffic, number + to_size(destination.object));
  return {.kind = Task::Kind::transfer,
          .op = Op::transfer,
          .lane = lane.value_or(Lane::compute),
          .draw = draw_of(from, to, traffic),
          .moved = range.bytes,
          .uses = {source, destination}};
}

void route(Program& program, int depth) { Router(program, depth).run(); }

}  // namespace ebb::plan
