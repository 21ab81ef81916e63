#include "measure/probe/product_rate.h"

#include <algorithm>

#include "base/list.h"
#include "base/to_size.h"
#include "kernels/counting_ops.h"
#include "measure/probe/random_values.h"
#include "measure/probe/timing.h"

namespace ebb::measure {
namespace {

struct Shape {
  std::int64_t rows, in, out;
};

// On a CPU they are so short that a pass is rarely disturbed; a GPU has much to do at once.
List<Shape> shapes_for(const std::string& device) {
  if (device == "cuda") return {{8192, 4096, 8192}, {8192, 8192, 4096}};
  return {{512, 512, 1408}, {512, 1408, 512}, {512, 1024, 1024}};
}

double rate_of(engine::Runtime& runtime, DType type, const Shape& shape, double seconds) {
  device::Device& device = runtime.device();
  const auto stream = device.create_stream(device::StreamKind::compute, "products");
  const auto bytes = [&](std::int64_t rows, std::int64_t cols) {
    return rows * cols * size_of(type);
  };
  const auto a = device.allocate_device(bytes(shape.rows, shape.in));
  const auto b = device.allocate_device(bytes(shape.out, shape.in));
  const auto c = device.allocate_device(bytes(shape.rows, shape.out));
  for (const device::Buffer* buffer : {a.get(), b.get()}) {
    fill_with_random_values(*stream, buffer->data(), buffer->bytes(), type);
  }
  const auto product = [&](kernels::ModelOps& ops) {
    ops.matmul({c->data(), type, shape.rows, shape.out, shape.out},
               {a->data(), type, shape.rows, shape.in, shape.in},
               {b->data(), type, shape.out, shape.in, shape.in}, {.transpose_b = true});
  };
  kernels::CountingOps counting(runtime.device_model());
  product(counting);
  const kernels::CountingOps::Count count = counting.take();
  const auto scratch = device.allocate_device(std::max<Bytes>(1, count.scratch));
  auto ops = runtime.device_model().ops(
      {.stream = stream.get(), .scratch = {scratch->data(), to_size(count.scratch)}});
  const auto run = [&] { product(ops); };
  const bool settles = device.kind() != "cpu";
  const double took = settles ? settled_run(*stream, {.all = seconds, .pass = 0.05}, 2, run)
                              : fastest_run(*stream, {.all = seconds, .pass = 0}, run);
  return count.flops / took;
}

}  // namespace

double product_rate(engine::Runtime& runtime, DType type, double seconds) {
  const List<Shape> shapes = shapes_for(runtime.device().kind());
  double best = 0;
  for (const Shape& shape : shapes) {
    best = std::max(best,
                    rate_of(runtime, type, shape, seconds / static_cast<double>(shapes.count())));
  }
  return best;
}

}  // namespace ebb::measure
