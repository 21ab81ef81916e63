#define HWY_TARGET_INCLUDE "optim/update.cpp"  // bad
#include HWY_TARGET_INCLUDE                    // bad
