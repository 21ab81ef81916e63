// A model's generation_config.json.
#include "files/model/generation_config.h"

#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

// As for any JSON: "0," is two bytes and a value of 16, three times of which are held while its
// list grows.
constexpr Bytes kBytesPerByte = 80;

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    MemoryFiles files({{"m/generation_config.json", text}});
    const auto config = files::read_generation_config(files, "m");
    require(config.has_value(), "a file that is there is read or refused");
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    require(config->stops.size() <= 1024, "ids that end a text are few");
    for (const std::int32_t id : config->stops) require(id >= 0, "an id is from 0");
    const auto within = [](std::optional<double> number, double most) {
      return !number || (*number >= 0 && *number <= most);
    };
    require(within(config->temperature, 1000) && within(config->top_p, 1) &&
                config->top_k.value_or(0) >= 0,
            "numbers are those that tokens can be drawn with");
  });
}
