// The plan of an evaluation: where weights live, within limits, while every batch goes through the
// model once. Few choices matter, so it tries them one by one.
#pragma once

#include <string>

#include "plan/candidate.h"
#include "plan/choice_table.h"
#include "plan/trace.h"

namespace ebb::plan {

// The plan of one batch with these choices, whether it fits the limits or not.
Plan evaluation_with(const Workload&, const Choices&, const Limits&, const Profile&);

// The fastest plan that fits; where none does, the one that misses least. fits() tells which. As
// many weights stay on the device as fit there, and of those that stream as many in host memory.
// What the user fixed stays fixed; what is no choice of an evaluation is not read.
Plan find_evaluation(const Workload&, const FixedChoices&, const Limits&, const Profile&);

// "--weights 12 --vocabulary whole ...": the flags that reproduce the choices.
std::string evaluation_flags(const Choices&);

// Where every byte goes, what a batch takes, and what bounds it.
std::string explain_evaluation(const Plan&);

// What `ebb plan evaluate` expects. The plan must outlive it.
Trace predicted_evaluation(const Plan&);

}  // namespace ebb::plan
