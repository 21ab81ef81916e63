// A model's config.json, and the parameters it makes.
#include "model/config.h"
#include "base/json.h"

#include "fuzz/target.h"
#include "model/parameters.h"

namespace ebb::fuzz {
namespace {

// Every layer makes names; these few tell what thousands would.
constexpr std::int64_t kMostLayers = 16;

void check_parameters(model::Config config) {
  config.layers = std::min(config.layers, kMostLayers);
  const model::Parameters parameters = model::parameters_of(config);
  require(parameters.count() > 0 && parameters.count() < std::int64_t{1} << 50,
          "parameters can be counted");
  for (std::size_t b = 0; b < parameters.blocks.size(); ++b) {
    std::int64_t end = 0;
    for (const int p : parameters.blocks[b].parameters) {
      const model::Parameter& parameter = parameters.all.at(static_cast<std::size_t>(p));
      require(parameter.block == static_cast<int>(b), "a parameter knows its block");
      require(parameter.first >= end && parameter.first % model::kParameterAlignment == 0,
              "parameters are aligned and do not overlap");
      require(parameter.rows > 0 && parameter.cols > 0, "a parameter has elements");
      end = parameter.first + parameter.count();
    }
    require(end <= parameters.blocks[b].length, "parameters lie inside their block");
  }
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kJsonBytesPerByte, [](std::string_view text) {
    const Json json = parse_json(text, "config.json");
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    const model::Config config = model::parse_config(json, "config.json");
    const std::string written = model::to_json(config, "bf16").dump();
    require(model::parse_config(parse_json(written, "config.json"), "config.json") == config,
            "a configuration survives writing and reading");
    check_parameters(config);
  });
}
