// A run's folder, and the page that is made of it: the log, and behind a record separator what
// stands for plan.json and step.json.
#include <string>

#include "base/json.h"
#include "ebb/error.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "report/page.h"

namespace ebb::fuzz {
namespace {

constexpr char kSeparator = 0x1e;
// A page's tree of values takes more than the JSON it was read from, which is there twice.
constexpr Bytes kBytesPerByte = 12 * kJsonBytesPerByte;
// Style, script and tables; and the parts of six curves.
constexpr Bytes kFreeBytes = 4 * kMiB;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos;
       at += what.size()) {
    ++found;
  }
  return found;
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const Allowance allowance{.bytes_per_byte = kBytesPerByte, .free_bytes = kFreeBytes};
  return run(data, size, allowance, [](std::string_view text) {
    const std::size_t border = std::min(text.find(kSeparator), text.size());
    const std::string_view log = text.substr(0, border);
    const std::string_view plan = text.substr(std::min(border + 1, text.size()));
    MemoryFiles files({{"run/log.jsonl", log}, {"run/plan.json", plan}, {"run/step.json", plan}});
    const report::RunData run = report::read_run(files, "run");
    for (std::size_t i = 0; i < report::kCurves.size(); ++i) {
      const report::Series& curve = run.log.curve(i);
      require(curve.parts().size() <= report::Series::kMostParts, "a curve is bounded");
    }
    std::string page;
    report::write_page({&run, 1}, "Run", [&](std::string_view piece) { page += piece; });
    require(count(page, "<script") == 2 && count(page, "</script") == 2,
            "what a folder holds makes no script");
    require(count(page, "<img") == 0 && count(page, "<iframe") == 0, "nor any other element");
    const std::string_view open = "id=\"data\">";
    const std::size_t from = page.find(open) + open.size();
    const Json shown = parse_json(
        std::string_view(page).substr(from, page.find("</script>", from) - from), "a page");
    require(shown.at("runs").size() == 1, "a page's data can be read");
  });
}
