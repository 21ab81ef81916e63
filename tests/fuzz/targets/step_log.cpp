// A run's log.jsonl, of which a run that goes on keeps the beginning.
#include "engine/step_log.h"
#include "base/json.h"

#include <limits>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kJsonBytesPerByte, [](std::string_view log) {
    std::size_t before = 0;
    for (const std::int64_t step :
         {std::int64_t{1}, std::int64_t{20}, std::numeric_limits<std::int64_t>::max()}) {
      const std::string_view kept = engine::kept_lines(log, step);
      require(log.starts_with(kept), "what is kept is the log's beginning");
      require(kept.empty() || kept.size() == log.size() || kept.back() == '\n',
              "lines are kept whole");
      require(kept.size() >= before, "a later step keeps no less");
      require(engine::kept_lines(kept, step) == kept, "what was kept is kept again");
      for (std::size_t at = 0; at < kept.size();) {
        const std::size_t end = std::min(kept.find('\n', at), kept.size());
        const Json line = parse_json(kept.substr(at, end - at), "a line that was kept");
        require(line.at("step").get<std::uint64_t>() <= static_cast<std::uint64_t>(step),
                "no line of a later step is kept");
        at = end + 1;
      }
      before = kept.size();
    }
  });
}
