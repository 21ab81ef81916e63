#define HWY_TARGET_INCLUDE "states/update.cpp"  // bad
#include HWY_TARGET_INCLUDE                     // bad
