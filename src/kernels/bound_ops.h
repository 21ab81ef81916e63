// Ops that are made for a task: an implementation bound to the stream and the scratch that the task
// runs with. Nothing of it outlives the task; what is worth keeping is the library's
// (model_library.h, optimizer_library.h).
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <utility>

#include "device/device.h"

namespace ebb::kernels {

// Where ops run. Both outlive the ops that are made for it.
struct ExecutionContext {
  // The stream that calls are made on, inside of its work. Libraries of the CPU compute on the
  // calling thread and need none.
  device::Stream* stream = nullptr;
  // Memory of the library's device, at least what the ops that are called want; what is in it is
  // lost.
  std::span<std::byte> scratch = {};
};

// An implementation of Ops as a value of a few words: making one takes no memory and no lock. It is
// given to functions that take an Ops&, and refuses to become a reference where it is a temporary.
template <class Ops>
class Bound {
 public:
  template <class Implementation, class... Arguments>
  explicit Bound(std::in_place_type_t<Implementation>, Arguments&&... arguments)
      : ops_(::new (static_cast<void*>(memory_))
                 Implementation(std::forward<Arguments>(arguments)...)) {
    static_assert(sizeof(Implementation) <= sizeof memory_);
    static_assert(alignof(Implementation) <= alignof(void*));
  }
  ~Bound() { ops_->~Ops(); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  Ops* operator->() { return ops_; }
  Ops& operator*() & { return *ops_; }
  Ops& operator*() && = delete;
  operator Ops&() & { return *ops_; }
  operator Ops&() && = delete;

 private:
  // A pointer to the vtable, what the implementation refers to, and its scratch.
  alignas(void*) std::byte memory_[64];
  Ops* ops_;
};

}  // namespace ebb::kernels
