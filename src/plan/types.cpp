#include "plan/types.h"

#include "base/enum_array.h"

namespace ebb::plan {

std::string_view name_of(Purpose purpose) {
  constexpr EnumArray<Purpose, std::string_view, kPurposes.size()> names = {
      "weights", "states", "gradients", "activations", "key-value cache", "workspace", "batch"};
  return names[purpose];
}

}  // namespace ebb::plan
