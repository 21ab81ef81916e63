// One block of a model and its head in memory of a device, to be run forward and backward over and
// over on numbers that mean nothing: what a training step's compute lane does, in small.
#pragma once

#include <memory>

#include "engine/runtime.h"
#include "model/decoder.h"
#include "plan/workload.h"

namespace ebb::engine {

class BlockWork {
 public:
  // `config` has one block, and a head that is not tied. Takes the model's memory on the device and
  // binds its ops to the stream and to scratch of its own, for as long as it lives.
  BlockWork(Runtime& runtime, device::Stream& stream, const model::Config& config, DType type,
            model::Shape shape);

  // What all of it takes on the device.
  static Bytes bytes(Runtime& runtime, const model::Config& config, DType type, model::Shape shape);

  // Of one run.
  plan::Cost cost() const;
  // Within work of the stream.
  void run(kernels::ModelOps& ops);

 private:
  struct Places;

  model::Decoder decoder_;
  plan::Workload work_;
  std::unique_ptr<device::Buffer> buffer_;
};

}  // namespace ebb::engine
