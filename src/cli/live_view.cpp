#include "cli/live_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "cli/output.h"

namespace ebb::cli {
namespace {

constexpr int kRows = 4;    // of the curve
constexpr int kLevels = 8;  // of a block
constexpr std::array<const char*, kLevels + 1> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                          "▅", "▆", "▇", "█"};
constexpr int kNameCells = 8;

std::string cut(std::string text, int columns) {
  // Of one byte a cell: blocks are counted where they are made.
  text.resize(std::min(text.size(), static_cast<std::size_t>(std::max(columns, 0))));
  return text;
}

// Bars from the lowest value to the highest, the upper row first.
std::vector<std::string> curve(const std::vector<double>& values) {
  std::vector<std::string> rows(kRows);
  if (values.empty()) return rows;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  for (const double value : values) {
    const double share = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    const int level = 1 + static_cast<int>(std::lround(share * (kRows * kLevels - 1)));
    for (int row = 0; row < kRows; ++row) {
      const int below = (kRows - 1 - row) * kLevels;
      rows[static_cast<std::size_t>(row)] +=
          kBlocks[static_cast<std::size_t>(std::clamp(level - below, 0, kLevels))];
    }
  }
  return rows;
}

// "device   ██████░░░░  45.2 MiB of 100 MiB"
std::string bar(const TierMemory& tier, int columns) {
  const std::string figures =
      tier.limit > 0 ? fmt::format("  {} of {}", format_bytes(tier.most), format_bytes(tier.limit))
                     : fmt::format("  {}", format_bytes(tier.most));
  const int cells = std::min(columns - kNameCells - static_cast<int>(figures.size()), 60);
  std::string text = fmt::format("{:<{}.{}}", tier.tier, kNameCells, kNameCells - 1);
  if (cells < 4) return cut(text + figures, columns);
  const double share =
      tier.limit > 0 ? static_cast<double>(tier.most) / static_cast<double>(tier.limit) : 0;
  const int full = std::clamp(static_cast<int>(std::lround(share * cells)), 0, cells);
  for (int i = 0; i < cells; ++i) text += i < full ? "█" : "░";
  return text + figures;
}

}  // namespace

void Means::add(double value) {
  if (!std::isfinite(value)) return;
  if (!sums_.empty() && sums_.back().count < values_each_) {
    sums_.back().sum += value;
    ++sums_.back().count;
    return;
  }
  if (sums_.size() == kMost) {
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      const Sum &a = sums_[2 * i], &b = sums_[2 * i + 1];
      sums_[i] = {a.sum + b.sum, a.count + b.count};
    }
    sums_.resize(kMost / 2);
    values_each_ *= 2;
  }
  sums_.push_back({value, 1});
}

std::vector<double> Means::columns(std::size_t count) const {
  const std::size_t columns = std::min(count, sums_.size());
  std::vector<double> means;
  for (std::size_t column = 0; column < columns; ++column) {
    Sum all;
    const std::size_t behind = (column + 1) * sums_.size() / columns;
    for (std::size_t i = column * sums_.size() / columns; i < behind; ++i) {
      all = {all.sum + sums_[i].sum, all.count + sums_[i].count};
    }
    means.push_back(all.sum / static_cast<double>(all.count));
  }
  return means;
}

void LiveView::add(const StepReport& report) {
  if (empty()) first_loss_ = report.loss;
  report_ = report;
  losses_.add(report.loss);
}

std::vector<std::string> LiveView::lines(int columns) const {
  const StepReport& r = report_;
  const std::string of = r.steps > 0 ? fmt::format("/{}", r.steps) : std::string();
  const std::string utilization =
      r.utilization ? fmt::format("  {:.1f}% utilization", 100 * *r.utilization) : std::string();
  std::vector<std::string> lines = {
      cut(fmt::format("step {}{}  loss {:.4f}  norm {:.3f}  lr {:.2e}", r.step, of, r.loss, r.norm,
                      r.learning_rate),
          columns)};
  for (std::string& row : curve(losses_.columns(static_cast<std::size_t>(std::max(columns, 1))))) {
    lines.push_back(std::move(row));
  }
  lines.push_back(cut(fmt::format("{:.0f} tokens/s{}{}  loss from {:.4f}", r.tokens_per_second,
                                  utilization, time_left(r.seconds_left), first_loss_),
                      columns));
  for (const TierMemory& tier : r.memory) lines.push_back(bar(tier, columns));
  return lines;
}

}  // namespace ebb::cli
