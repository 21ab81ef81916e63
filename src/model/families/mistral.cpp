// Mistral 7B and its kin: every layer looks back over a window, or over everything.
#include "model/families/family.h"
#include "model/families/rotary.h"

namespace ebb::model {
namespace {

constexpr const char* kWindow = "sliding_window";

void read(const Fields& fields, Config& config) {
  read_rope(fields, config);
  if (fields.array("layer_types") != nullptr) fields.refuse("layer_types are not supported");
  // transformers takes a window of 4096 where nothing is said.
  if (fields.is_null(kWindow) || config.layers < 1 || config.layers > 4096) return;
  config.windows.assign(config.layers, read_window(fields, 4096));
}

void write(const Config& config, Json& json) {
  write_rope(config, json);
  json[kWindow] = config.windows.empty() ? Json(nullptr) : Json(config.windows.front());
}

}  // namespace

const Family kMistral{.name = "mistral",
                      .architecture = "MistralForCausalLM",
                      .features = [](Config&) {},
                      .read = read,
                      .write = write};

}  // namespace ebb::model
