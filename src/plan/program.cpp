#include "plan/program.h"

#include <array>

namespace ebb::plan {

std::string_view name_of(Op op) {
  constexpr std::array<std::string_view, 26> names = {"load_batch",
                                                      "embed",
                                                      "forward",
                                                      "send_input",
                                                      "head",
                                                      "fetch_input",
                                                      "recompute",
                                                      "backward",
                                                      "embed_backward",
                                                      "add_gradient",
                                                      "finish_gradient",
                                                      "send_gradient",
                                                      "host_add_gradient",
                                                      "host_finish_gradient",
                                                      "gather_report",
                                                      "forget_scale",
                                                      "norm",
                                                      "spread_scale",
                                                      "fetch_state",
                                                      "update",
                                                      "send_state",
                                                      "host_update",
                                                      "send_weight",
                                                      "load_tokens",
                                                      "decode",
                                                      "logits"};
  return names[static_cast<std::size_t>(op)];
}

void Program::find_lifetimes() {
  for (Object& object : objects) object.first = object.last = -1;
  for (TaskId id = 0; id < static_cast<TaskId>(tasks.size()); ++id) {
    for (const Use& use : tasks[static_cast<std::size_t>(id)].uses) {
      Object& object = objects[static_cast<std::size_t>(use.object)];
      if (object.first < 0) object.first = id;
      object.last = id;
    }
  }
}

}  // namespace ebb::plan
