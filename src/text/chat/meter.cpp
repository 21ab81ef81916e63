#include "text/chat/meter.h"

#include <fmt/format.h>

#include "ebb/units.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {
namespace {

thread_local Meter* current = nullptr;

}  // namespace

void Meter::full() const {
  throw Failure(fmt::format("the template's values need more than {} of memory at once",
                            format_bytes(static_cast<Bytes>(most_))));
}

Metering::Metering(Meter& meter) : before_(std::exchange(current, &meter)) {}
Metering::~Metering() { current = before_; }

Charge::Charge(std::size_t bytes) : meter_(current), bytes_(bytes) {
  if (meter_) meter_->take(bytes_);
}

}  // namespace ebb::text::jinja
