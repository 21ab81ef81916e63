// Runs the table's cases, whose operands are host memory, on a device: operands have a mirror in
// device memory, and around each op they are copied there and back.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include "device/device.h"
#include "kernels/described_ops.h"
#include "kernels/op_cases.h"

namespace ebb::kernels {

class DeviceMirror {
 public:
  explicit DeviceMirror(device::Device& device)
      : device_(device), stream_(device.create_stream(device::StreamKind::compute, "test")) {}

  device::Stream& stream() { return *stream_; }

  // What is mirrored from now on, and scratch of exactly `scratch` bytes in front of a guard.
  void mirror(Buffers& buffers, Bytes scratch, std::uint8_t poison) {
    ranges_.clear();
    Bytes end = 0;
    const auto take = [&](Bytes bytes) {
      const Bytes at = end;
      end = (end + bytes + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    for (Buffer& buffer : buffers) {
      // The vector is the buffer's own and not const; only its accessor is.
      auto* const data = const_cast<std::byte*>(buffer.bytes().data());
      const auto bytes = static_cast<Bytes>(buffer.bytes().size());
      ranges_.push_back({data, bytes, take(bytes)});
    }
    scratch_at_ = take(scratch + kGuard);
    scratch_bytes_ = scratch;
    reserve(end);
    run([&] { stream_->fill(memory_->data(), poison, end); });
  }
  std::span<std::byte> scratch() const {
    return {memory_->data() + scratch_at_, static_cast<std::size_t>(scratch_bytes_)};
  }
  // Whether the bytes behind the scratch are still `poison`.
  bool guard_untouched(std::uint8_t poison) {
    run([&] {
      stream_->copy(staging_->data(), memory_->data() + scratch_at_ + scratch_bytes_, kGuard);
    });
    return std::all_of(staging_->data(), staging_->data() + kGuard,
                       [&](std::byte b) { return b == std::byte{poison}; });
  }

  void* at(const void* pointer) const {
    if (pointer == nullptr) return nullptr;
    const auto* wanted = static_cast<const std::byte*>(pointer);
    for (const Range& range : ranges_) {
      if (wanted >= range.host && wanted < range.host + range.bytes) {
        return memory_->data() + range.at + (wanted - range.host);
      }
    }
    throw std::logic_error("an op was given memory that is not mirrored");
  }

  // Copies in, queues `op`, copies out.
  template <class Op>
  void around(const Op& op) {
    for (const Range& range : ranges_) {
      std::memcpy(staging_->data() + range.at, range.host, static_cast<std::size_t>(range.bytes));
    }
    run([&] {
      for (const Range& range : ranges_) {
        stream_->copy(memory_->data() + range.at, staging_->data() + range.at, range.bytes);
      }
      op();
      for (const Range& range : ranges_) {
        stream_->copy(staging_->data() + range.at, memory_->data() + range.at, range.bytes);
      }
    });
    for (const Range& range : ranges_) {
      std::memcpy(range.host, staging_->data() + range.at, static_cast<std::size_t>(range.bytes));
    }
  }

 private:
  static constexpr Bytes kAlignment = 256;
  static constexpr Bytes kGuard = 4096;
  struct Range {
    std::byte* host;
    Bytes bytes;
    Bytes at;
  };

  // Work must not throw, so what it throws is carried over.
  template <class Work>
  void run(const Work& work) {
    std::exception_ptr failure;
    stream_->submit([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    });
    stream_->synchronize();
    if (failure) std::rethrow_exception(failure);
  }

  void reserve(Bytes bytes) {
    if (memory_ && memory_->bytes() >= bytes) return;
    const Bytes rounded = std::max(bytes, 64 * kMiB);
    memory_.reset(), staging_.reset();
    memory_ = device_.allocate_device(rounded);
    staging_ = device_.allocate_host(rounded);
  }

  device::Device& device_;
  std::unique_ptr<device::Buffer> memory_, staging_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<Range> ranges_;
  Bytes scratch_at_ = 0, scratch_bytes_ = 0;
};

// `ops` on the mirrors of what it is given.
class MirroredOps : public DescribedOps {
 public:
  MirroredOps(ModelOps& ops, DeviceMirror& mirror) : ops_(ops), mirror_(mirror) {}

  void product_activate(View h, const Product& x, Activation activation) override {
    mirror_.around([&] { ops_.product_activate(on(h), on(x), activation); });
  }
  void product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                 Activation activation) override {
    mirror_.around(
        [&] { ops_.product_activate_backward(on(dx), on(h), on(dh), on(x), activation); });
  }

 protected:
  void call(const OpCall&, std::initializer_list<Address> addresses,
            FunctionRef<void(ModelOps&)> run) override {
    for (const Address& address : addresses) address.replace(mirror_.at(address.value()));
    mirror_.around([&] { run(ops_); });
  }

 private:
  template <class V>
  V on(V view) const requires requires {
    view.stride;
  }
  {
    view.data = mirror_.at(view.data);
    return view;
  }
  Product on(const Product& p) const {
    MatmulOptions options = p.options;
    options.bias = mirror_.at(p.options.bias);
    options.addend = mirror_.at(p.options.addend);
    return {on(p.c), on(p.a), on(p.b), options};
  }

  ModelOps& ops_;
  DeviceMirror& mirror_;
};

}  // namespace ebb::kernels
