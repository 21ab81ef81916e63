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
#include "kernels/model_ops.h"
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
class MirroredOps : public ModelOps {
 public:
  MirroredOps(ModelOps& ops, DeviceMirror& mirror) : ops_(ops), mirror_(mirror) {}

  using ModelOps::matmul;
  void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) override {
    mirror_.around([&] { ops_.matmul(on(Product{c, a, b, options})); });
  }
  void column_sums(void* out, DType type, ConstView x) override {
    mirror_.around([&] { ops_.column_sums(mirror_.at(out), type, on(x)); });
  }
  void add_row(View x, const void* row) override {
    mirror_.around([&] { ops_.add_row(on(x), mirror_.at(row)); });
  }
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale) override {
    mirror_.around([&] { ops_.embed(on(out), on(table), on(ids), scale); });
  }
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                      float scale) override {
    mirror_.around([&] { ops_.embed_backward(on(sums), on(dy), on(ids), scale); });
  }
  void norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
            const void* bias, const Norm& norm) override {
    mirror_.around([&] {
      ops_.norm(on(y), on(stats), stats_given, on(x), mirror_.at(weight), mirror_.at(bias), norm);
    });
  }
  void norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                     const void* weight, const Norm& norm) override {
    NormGradients there = to;
    there.dx = on(to.dx);
    there.dweight = mirror_.at(to.dweight);
    there.dbias = mirror_.at(to.dbias);
    mirror_.around(
        [&] { ops_.norm_backward(there, on(dy), on(x), on(stats), mirror_.at(weight), norm); });
  }
  void rope(View x, const float* table, const RopeShape& shape) override {
    mirror_.around([&] { ops_.rope(on(x), on(table), shape); });
  }
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override {
    mirror_.around([&] { ops_.attention(on(out), on(log_sums), on(q), on(k), on(v), shape); });
  }
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override {
    mirror_.around([&] {
      ops_.attention_backward(on(dq), on(dk), on(dv), on(dout), on(q), on(k), on(v), on(out),
                              on(log_sums), shape);
    });
  }
  void activate(View h, ConstView x, Activation activation) override {
    mirror_.around([&] { ops_.activate(on(h), on(x), activation); });
  }
  void activate_backward(View dx, View h, ConstView dh, ConstView x,
                         Activation activation) override {
    mirror_.around([&] { ops_.activate_backward(on(dx), on(h), on(dh), on(x), activation); });
  }
  void product_activate(View h, const Product& x, Activation activation) override {
    mirror_.around([&] { ops_.product_activate(on(h), on(x), activation); });
  }
  void product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                 Activation activation) override {
    mirror_.around(
        [&] { ops_.product_activate_backward(on(dx), on(h), on(dh), on(x), activation); });
  }
  void cross_entropy(View dlogits, float* losses, ConstView logits,
                     std::span<const std::int32_t> targets, float scale) override {
    mirror_.around(
        [&] { ops_.cross_entropy(on(dlogits), on(losses), on(logits), on(targets), scale); });
  }
  void sum(double* total, const float* values, std::int64_t count) override {
    mirror_.around([&] { ops_.sum(static_cast<double*>(mirror_.at(total)), on(values), count); });
  }
  void convert(View dst, ConstView src) override {
    mirror_.around([&] { ops_.convert(on(dst), on(src)); });
  }
  void fill_zero(void* data, Bytes bytes) override {
    mirror_.around([&] { ops_.fill_zero(mirror_.at(data), bytes); });
  }
  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const MatmulOptions& options) const override {
    return ops_.matmul_scratch(c, a, b, options);
  }
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override {
    return ops_.attention_scratch(type, shape, backward);
  }
  void bind_scratch(std::span<std::byte> scratch) override { ops_.bind_scratch(scratch); }

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
  float* on(const float* pointer) const { return static_cast<float*>(mirror_.at(pointer)); }
  std::span<const std::int32_t> on(std::span<const std::int32_t> ids) const {
    return {static_cast<const std::int32_t*>(mirror_.at(ids.data())), ids.size()};
  }

  ModelOps& ops_;
  DeviceMirror& mirror_;
};

}  // namespace ebb::kernels
