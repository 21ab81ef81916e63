#include "engine/gemm_cache.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "base/cache_folder.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/workload.h"
#include "io/text_file.h"
#include "kernels/gemm_tuner.h"

namespace ebb::engine {
namespace {

using kernels::Product;

// Empty: none is wanted, or there is no place for one.
std::filesystem::path file_of_choices() {
  const char* given = std::getenv("EBB_GEMM_CACHE");
  if (given == nullptr) given = std::getenv("EBB_PRODUCTS");  // its name before
  if (given != nullptr && *given != '\0') return std::string_view(given) == "off" ? "" : given;
  const auto folder = cache_folder();
  return folder ? *folder / "products.json" : std::filesystem::path();
}

std::vector<Product> products_of(Runtime& runtime, const TrainingSettings& s) {
  return training_products(model::Decoder(s.config, s.dtype, s.gradient_type, s.shape),
                           runtime.device_model());
}

// Times all products in memory and on a stream of its own.
void search_all(Runtime& runtime, const std::vector<Product>& products, Bytes bytes,
                const Note& note) {
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::seconds(3);
  kernels::GemmTuner& search = *runtime.device_model().product_search();
  const auto memory = runtime.device().allocate_device(bytes);
  const auto stream = runtime.device().create_stream(device::StreamKind::compute, "search");
  const kernels::ExecutionContext context{.stream = stream.get(),
                                          .scratch = {memory->data(), to_size(memory->bytes())}};
  auto said = Clock::now();
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (search.chosen(products[i])) continue;
    if (Clock::now() - said > patience) {
      note(fmt::format("  {} of {} products timed", i, products.size()));
      said = Clock::now();
    }
    search.search(products[i], context);
  }
}

}  // namespace

void choose_gemms(io::FileSystem& files, Runtime& runtime, const TrainingSettings& settings,
                  const Note& note) {
  if (runtime.device_model().product_search() == nullptr) return;
  choose_gemms(files, runtime, products_of(runtime, settings), settings.limits[plan::Tier::device],
               note);
}

void choose_gemms(io::FileSystem& files, Runtime& runtime, const std::vector<Product>& products,
                  Bytes device, const Note& note) {
  kernels::GemmTuner* const search = runtime.device_model().product_search();
  const std::filesystem::path path = file_of_choices();
  if (search == nullptr || path.empty()) return;
  Json all = read_gemm_cache_file(files, path, note);
  const std::string key = fmt::format("{}, {}", search->conditions(), search->method());
  search->load_choices(choices_of(all.value(key, Json())));

  Bytes bytes = 0;
  for (const Product& product : products) {
    if (!search->chosen(product)) bytes = std::max(bytes, search->search_bytes(product));
  }
  // A run holds a product's operands at once, and more: where they do not fit it will be refused.
  if (bytes == 0 || bytes > device) return;
  note(fmt::format("Timing matrix algorithms for this model, once; kept in {}", path.string()));
  search_all(runtime, products, bytes, note);
  Json& own = all[key];
  if (!own.is_object()) own = Json::object();
  for (const auto& [product, choice] : search->choices()) own[product] = choice;
  try {
    files.make_directories(io::parent_of(path));
    io::write_text_atomically(files, path, all.dump(1) + "\n");
  } catch (const IoError& error) {
    note(fmt::format("{}; the choices are this run's alone, then", error.what()));
  }
}

void use_stored_gemms(Runtime& runtime, const TrainingSettings& settings, const Json& numerics) {
  kernels::GemmTuner* const search = runtime.device_model().product_search();
  if (search == nullptr || !numerics.is_object()) return;
  const Json stored = numerics.value("products", Json());
  if (!stored.is_object() || stored.value("conditions", Json()) != search->conditions()) return;
  search->load_choices(choices_of(stored.value("choices", Json())));
  // Choices are the run's own once its products were looked up.
  for (const Product& product : products_of(runtime, settings)) search->chosen(product);
}

}  // namespace ebb::engine
