// What the public API returns and throws, as JSON: objects with the fields of the structs.
#pragma once

#include <exception>

#include "base/json_fwd.h"
#include "ebb/evaluate.h"
#include "ebb/generate.h"
#include "ebb/model.h"
#include "ebb/plan.h"
#include "ebb/train.h"

namespace ebb::api {

Json to_json(const Plan& plan);
Json to_json(const StepReport& report);
Json to_json(const TrainSummary& summary);
Json to_json(const EvaluateReport& report);
Json to_json(const EvaluateSummary& summary);
Json to_json(const GenerateSummary& summary);
Json describe(const Model& model);
// {"kind": the class, "text": what(), and what the class carries}
Json describe_error(const std::exception& error);

}  // namespace ebb::api
