// The sums over a whole row of logits that its softmax and loss need.
#pragma once

namespace ebb::kernels {

struct RowSums {
  float largest = 0;
  double log_total = 0;  // the logarithm of the sum of exponentials, each less the largest
};

}  // namespace ebb::kernels
