// A checkpoint's training.json: what a run goes on from besides its parameters.
#include "files/run/training_state.h"

#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

// As for any JSON: "0," is two bytes and a value of 16, three times of which are held while its
// list grows. The round trip holds the tree twice, its text and a third tree beside it.
constexpr Bytes kBytesPerByte = 120;

files::TrainingState read(std::string_view text) {
  MemoryFiles files({{"step-00000020/training.json", text}});
  return files::read_training_state(files, "step-00000020");
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    const files::TrainingState state = read(text);
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    const text::DataPosition& at = state.data_position;
    require(state.step >= 0 && at.epoch >= 0 && at.item >= 0 && at.token >= 0,
            "a run goes on from a step and a position from 0");
    require(state.numerics_key.is_object(), "a numerics key has fields to compare");
    const files::TrainingState again = read(files::to_json(state).dump());
    require(again.step == state.step && again.data_position == state.data_position &&
                again.seed == state.seed && again.numerics_key == state.numerics_key,
            "a training state survives writing and reading");
  });
}
