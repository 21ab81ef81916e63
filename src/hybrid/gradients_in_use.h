// The memory of gradients that the optimizer may still read: each from gradient_ready() up to the
// wait for its parameter's weight. Before and after, the caller may use it for anything, another
// parameter's gradient included. For one thread; owns no memory.
#pragma once

#include <cstdint>
#include <map>

#include "hybrid/settings.h"

namespace ebb::hybrid {

class GradientsInUse {
 public:
  // Throws ConfigError where a gradient of the parameter at that place would share memory with one
  // that is in use.
  void check_apart(const Parameter& of, const void* gradient) const;

  // The parameter's gradient stays where it is until it is removed, and so does the parameter: it
  // is kept by pointer. check_apart() comes first.
  void add(const Parameter& parameter);
  // Nothing where it is not in use.
  void remove(const Parameter& parameter);
  void clear() { by_begin_.clear(); }

 private:
  std::map<std::uintptr_t, const Parameter*> by_begin_;  // no two overlap
};

}  // namespace ebb::hybrid
