// Moments from one format to another, for checkpoints: by way of fp32, which is `exact`. A state
// that stays in its format is copied plane by plane instead, which loses nothing.
#pragma once

#include "kernels/update.h"

namespace ebb::states {

// The span's moments as fp32, exactly. A moment that the span or the caller has no place for is
// left out: null.
void widen_moments(const kernels::StateSpan& from, float* first, float* second);

// fp32 moments into the span's planes, rounded to the nearest of its format: once, so nothing adds
// up and no random number is needed. `second` is null where the span has none.
void narrow_moments(const float* first, const float* second, const kernels::StateSpan& to);

}  // namespace ebb::states
