#include "heap_watch.h"

namespace ebb {

bool HeapWatch::works() { return false; }
HeapWatch::HeapWatch() : start_(0) {}
Bytes HeapWatch::held() const { return start_; }
Bytes HeapWatch::peak() const { return start_; }

}  // namespace ebb
