// A space with addresses: one buffer of a device's or of the host's memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/device.h"
#include "memory/space.h"

namespace ebb::memory {

class Arena final : public Space {
 public:
  Arena(std::string name, std::unique_ptr<device::Buffer> buffer);

  Bytes size() const override { return buffer_->bytes(); }
  std::byte* at(Bytes offset, Bytes bytes) const override;
  std::optional<Bytes> touched_bytes() const override;

 private:
  std::unique_ptr<device::Buffer> buffer_;
};

}  // namespace ebb::memory
