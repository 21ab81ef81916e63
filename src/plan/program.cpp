#include "plan/program.h"

#include <algorithm>
#include <array>

#include "base/enum_array.h"
#include "base/to_size.h"

namespace ebb::plan {

std::string_view name_of(Op op) {
  constexpr EnumArray<Op, std::string_view, 29> names = {"embed",
                                                         "forward",
                                                         "head",
                                                         "head_begin",
                                                         "head_statistics",
                                                         "head_gradients",
                                                         "head_end",
                                                         "recompute",
                                                         "backward",
                                                         "embed_backward",
                                                         "add_gradient",
                                                         "finish_gradient",
                                                         "reset_scale",
                                                         "norm",
                                                         "update",
                                                         "add_to_group",
                                                         "exchange_gradients",
                                                         "sum_groups",
                                                         "gather_report",
                                                         "gather_weights",
                                                         "loss",
                                                         "note_loss",
                                                         "decode",
                                                         "attend",
                                                         "mlp",
                                                         "logits",
                                                         "take_tokens",
                                                         "choose_tokens",
                                                         "transfer"};
  return names[op];
}

std::string_view name_of(Draw draw) {
  constexpr EnumArray<Draw, std::string_view, kDraws.size()> names = {
      "compute", "up", "down", "update", "sum", "read", "write", "block", "nothing"};
  return names[draw];
}

void Program::find_lifetimes() {
  for (Object& object : objects) object.first = object.last = -1;
  List<List<ObjectId>> born(streams.size());
  for (TaskId id = 0; id < tasks.count(); ++id) {
    for (const Use& use : tasks[id].uses) {
      Object& object = objects[use.object];
      if (object.first < 0) {
        object.first = id;
        if (object.stream >= 0) born[object.stream].push_back(use.object);
      }
      object.last = id;
    }
  }
  for (Object& object : objects) object.held = object.last;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    // The one that comes when as many as are wanted are alive may have the first one's bytes.
    const auto ahead = to_size(std::max(1, streams[s].depth) - 1);
    for (std::size_t i = 0; i + ahead < born[s].size(); ++i) {
      Object& object = objects[born[s][i]];
      object.held = std::max(object.held, (*this)[born[s][i + ahead]].first);
    }
  }
}

}  // namespace ebb::plan
