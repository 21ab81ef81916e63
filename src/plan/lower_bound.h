// What no step with some choices can be shorter than: what each lane has to do at least, without
// building a program. The search skips points by it.
#pragma once

#include "plan/choices.h"
#include "plan/profile.h"
#include "plan/workload.h"

namespace ebb::plan {

class LowerBound {
 public:
  // Both must outlive it.
  LowerBound(const Workload& work, const Profile& profile);

  // Bytes of all parameters together.
  double state_bytes() const { return parameters_ * state_; }
  double weight_bytes() const { return parameters_ * weight_; }

  // Seconds.
  double operator()(const Choices& choices) const;

 private:
  double seconds(const Cost& cost) const;

  const Workload& work_;
  const Profile& profile_;
  double passes_ = 0, parameters_ = 0, model_seconds_ = 0, device_seconds_ = 0;
  double state_ = 0, weight_ = 0;  // bytes of a parameter, where it has the fewest
};

}  // namespace ebb::plan
