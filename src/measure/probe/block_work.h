// One block of a model and its head in memory of a device, to be run forward and backward over and
// over on numbers that mean nothing: what a training step's compute lane does, in small.
#pragma once

#include <memory>

#include "engine/runtime.h"
#include "model/decoder.h"
#include "plan/workload.h"

namespace ebb::measure {

class BlockWork {
 public:
  // `config` has one block, and a head that is not tied. Takes the model's memory on the device.
  BlockWork(engine::Runtime& runtime, device::Stream& stream, const model::Config& config,
            DType type, model::Shape shape);

  // Bytes that all of it takes on the device.
  static Bytes bytes(engine::Runtime& runtime, const model::Config& config, DType type,
                     model::Shape shape);

  // What one run costs, by kinds of ops.
  plan::Cost cost() const;
  // The device's, on the stream and with scratch of this.
  kernels::Bound<kernels::ModelOps> ops();
  // Within work of the stream.
  void run(kernels::ModelOps& ops);

 private:
  struct Places;

  kernels::ModelLibrary& library_;
  device::Stream& stream_;
  model::Decoder decoder_;
  plan::Workload work_;
  std::unique_ptr<device::Buffer> buffer_;
};

}  // namespace ebb::measure
