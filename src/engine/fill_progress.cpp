#include "engine/fill_progress.h"

#include <fmt/format.h>

#include "ebb/units.h"

namespace ebb::engine {

FillProgress::FillProgress(const model::Parameters& parameters, Note note, std::string what)
    : note_(std::move(note)), what_(std::move(what)) {
  for (const model::Parameter& parameter : parameters.all) total_ += parameter.count();
}

void FillProgress::add(std::size_t count) {
  done_ += static_cast<std::int64_t>(count);
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < std::chrono::seconds(5)) return;
  told_ = now;
  note_(fmt::format("{}: {} of {} parameters", what_, format_count(done_), format_count(total_)));
}

}  // namespace ebb::engine
