// The file that an optimizer library saved, loaded into an optimizer of two parameters.
#include <cstring>
#include <vector>

#include "base/list.h"
#include "device/device.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "hybrid/state_file.h"

namespace ebb::fuzz {
namespace {

// Made once: a bf16 weight and an fp32 one, states of AdamW in host memory.
struct Store {
  std::vector<bf16> a = std::vector<bf16>(5);
  std::vector<float> b = std::vector<float>(130);
  states::Rule rule = states::AdamW{};
  List<hybrid::Parameter> parameters =
      hybrid::check_parameters({{.name = "a", .weight = a.data(), .count = 5},
                                {.name = "b",
                                 .weight = b.data(),
                                 .weight_type = HybridOptimizer::Type::fp32,
                                 .count = 130}});
  hybrid::ChunkMap map = hybrid::cut_chunks(parameters, hybrid::parse_settings({}, 135));
  std::unique_ptr<device::Device> device = device::create_device("cpu");
  hybrid::Memory memory{*device, map, {}};
  ThreadPool pool{1};
  std::unique_ptr<device::Stream> stream =
      device->create_stream(device::StreamKind::compute, "compute");
  hybrid::StateStore store{parameters, map, memory, pool, *stream};
};

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  static Store made;
  return run(data, size, kJsonBytesPerByte, [](std::string_view text) {
    MemoryFiles files({{"state", text}});
    const std::vector<bf16> a = made.a;
    const std::vector<float> b = made.b;
    try {
      const hybrid::StateFile file(files, "state", made.store, made.rule);
      require(file.info().step >= 0, "steps are counted from 0");
      file.load(made.store);
    } catch (...) {
      require(made.a == a && std::memcmp(made.b.data(), b.data(), 4 * b.size()) == 0,
              "a file that is refused changes nothing");
      throw;
    }
    const files::SafetensorsReader reader(files, "state");
    std::vector<std::byte> stored(4 * b.size());
    reader.read(*reader.find("b.weight"), 0, stored);
    require(std::memcmp(made.b.data(), stored.data(), stored.size()) == 0,
            "weights are those of the file");
  });
}
