#include "report/page.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/median.h"
#include "ebb/units.h"
#include "ebb/version.h"
#include "report/html.h"
#include "report/page_parts.h"

namespace ebb::report {
namespace {

using Runs = std::span<const RunData>;
using Words = std::vector<std::string>;

constexpr std::size_t kRowsOfCurves = 20;
const std::string kNothing = "\xE2\x80\x93";  // an en dash

Json curves_of(const RunLog& log) {
  Json curves = Json::object();
  for (std::size_t i = 0; i < kCurves.size(); ++i) {
    if (!log.curve(i).empty()) curves[std::string(kCurves[i].key)] = to_json(log.curve(i));
  }
  if (!log.validation().empty()) curves["validation_loss"] = to_json(log.validation());
  return curves;
}

Json data_of(Runs runs) {
  Json all = Json::array();
  for (const RunData& run : runs) {
    all.push_back({{"name", run.name},
                   {"curves", curves_of(run.log)},
                   {"predicted_rate", run.predicted_tokens_per_second},
                   {"predicted", run.predicted},
                   {"measured", run.measured}});
  }
  return {{"runs", std::move(all)}};
}

Words with_names(std::string first, Runs runs) {
  Words columns = {std::move(first)};
  for (const RunData& run : runs) columns.push_back(run.name);
  return columns;
}

// A row of what each run has of something; none where no run has it.
void add_row(Table& table, Runs runs, std::string name,
             const std::function<std::string(const RunData&)>& cell) {
  Words row = {std::move(name)};
  for (const RunData& run : runs) row.push_back(cell(run));
  const bool any =
      std::any_of(row.begin() + 1, row.end(), [](const auto& c) { return !c.empty(); });
  if (!any) return;
  std::replace(row.begin() + 1, row.end(), std::string(), kNothing);
  table.rows.push_back(std::move(row));
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

double tokens_per_second(const RunData& run) {
  const double seconds = run.log.seconds();
  if (seconds <= 0) return 0;
  return static_cast<double>(run.log.steps()) * static_cast<double>(run.tokens_per_step) / seconds;
}

// The names of what the runs have, each once, in the order of their first mention.
Words names_in(Runs runs, const std::function<Words(const RunData&)>& names_of) {
  Words all;
  for (const RunData& run : runs) {
    for (const std::string& name : names_of(run)) {
      if (std::ranges::find(all, name) == all.end()) all.push_back(name);
    }
  }
  return all;
}

template <class Figures>
Words names_of(const std::vector<Figures>& figures) {
  Words names;
  for (const Figures& one : figures) names.push_back(one.name);
  return names;
}

Table overview(Runs runs) {
  Table table{.caption = "At a glance", .columns = with_names("", runs), .rows = {}};
  const auto last = [](const Series& series, const auto& text) {
    return series.empty() ? std::string() : text(series.last());
  };
  const auto percent = [](double share) { return fmt::format("{:.1f}%", 100 * share); };
  add_row(table, runs, "steps", [](const RunData& run) {
    if (run.planned_steps == 0) return std::to_string(run.log.last_step());
    return fmt::format("{} of {}", run.log.last_step(), run.planned_steps);
  });
  add_row(table, runs, "loss, last",
          [&](const RunData& r) { return last(r.log.curve(0), number); });
  add_row(table, runs, "loss, least", [](const RunData& r) {
    return r.log.curve(0).empty() ? std::string() : number(r.log.curve(0).least());
  });
  add_row(table, runs, "validation loss, last",
          [&](const RunData& r) { return last(r.log.validation(), number); });
  add_row(table, runs, "validation loss, least", [](const RunData& r) {
    return r.log.validation().empty() ? std::string() : number(r.log.validation().least());
  });
  add_row(table, runs, "time of its steps", [](const RunData& r) {
    return r.log.steps() == 0 ? std::string() : format_seconds(r.log.seconds());
  });
  add_row(table, runs, "tokens/s, of all steps", [](const RunData& r) {
    const double rate = tokens_per_second(r);
    return rate > 0 ? fmt::format("{:.0f}", rate) : std::string();
  });
  add_row(table, runs, "tokens/s, predicted", [](const RunData& r) {
    const double rate = r.predicted_tokens_per_second;
    return rate > 0 ? fmt::format("{:.0f}", rate) : std::string();
  });
  add_row(table, runs, "utilization, last",
          [&](const RunData& r) { return last(r.log.curve(4), percent); });
  for (const std::string& tier :
       names_in(runs, [](const RunData& run) { return names_of(run.tiers); })) {
    const auto bytes = [&](const std::string& what, Bytes TierFigures::*figure) {
      add_row(table, runs, fmt::format("{}, {}", tier, what), [&](const RunData& run) {
        const auto found = std::ranges::find(run.tiers, tier, &TierFigures::name);
        const bool has = found != run.tiers.end() && (*found).*figure > 0;
        return has ? format_bytes((*found).*figure) : std::string();
      });
    };
    bytes("limit", &TierFigures::limit);
    bytes("most, predicted", &TierFigures::predicted_peak);
    bytes("most, measured", &TierFigures::measured_peak);
  }
  return table;
}

// Several curves in some rows: the mean of each part of the run.
Table curves_table(const RunData& run) {
  Table table{.caption = "Curves of " + run.name,
              .columns = {"up to step", "seconds", "loss", "least", "most", "norm", "learning rate",
                          "tokens/s", "utilization"},
              .rows = {}};
  const auto& parts = run.log.curve(0).parts();
  const std::size_t rows = std::min(kRowsOfCurves, parts.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * parts.size() / rows, behind = (row + 1) * parts.size() / rows;
    Series::Part loss = parts[first];
    for (std::size_t i = first + 1; i < behind; ++i) {
      loss.least = std::min(loss.least, parts[i].least);
      loss.most = std::max(loss.most, parts[i].most);
      loss.sum += parts[i].sum;
      loss.count += parts[i].count;
    }
    const std::int64_t from = first == 0 ? -1 : parts[first - 1].step, to = parts[behind - 1].step;
    Words cells = {std::to_string(to), number(parts[behind - 1].seconds), number(loss.mean()),
                   number(loss.least), number(loss.most)};
    for (std::size_t curve = 1; curve < kCurves.size(); ++curve) {
      double sum = 0;
      std::int64_t count = 0;
      for (const Series::Part& part : run.log.curve(curve).parts()) {
        if (part.step <= from || part.step > to) continue;
        sum += part.sum;
        count += part.count;
      }
      cells.push_back(count == 0 ? kNothing : number(sum / static_cast<double>(count)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table validation_table(const RunData& run) {
  Table table{.caption = "Validation of " + run.name,
              .columns = {"after step", "loss, mean", "least", "most"},
              .rows = {}};
  const auto& parts = run.log.validation().parts();
  const std::size_t rows = std::min(kRowsOfCurves, parts.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const Series::Part& part = parts[(row + 1) * parts.size() / rows - 1];
    table.rows.push_back(
        {std::to_string(part.step), number(part.mean()), number(part.least), number(part.most)});
  }
  return table;
}

Table memory_table(const RunData& run) {
  Table table{.caption = "Memory in a step of " + run.name + ": the most of each purpose",
              .columns = {"tier and purpose", "predicted", "measured"},
              .rows = {}};
  const auto most = [](const Json& step, const Json& tier, const std::string& purpose) {
    if (!step.is_object()) return std::string();
    for (const Json& one : step.at("memory")) {
      if (one.at("tier") != tier) continue;
      for (std::size_t i = 0; i < one.at("purposes").size(); ++i) {
        if (one.at("purposes")[i] != purpose || one.at("bytes")[i].empty()) continue;
        const auto& bytes = one.at("bytes")[i];
        const auto found = std::max_element(bytes.begin(), bytes.end());
        return format_bytes(found->get<Bytes>());
      }
    }
    return std::string();
  };
  Words seen;
  for (const Json* step : {&run.predicted, &run.measured}) {
    if (!step->is_object()) continue;
    for (const Json& tier : step->at("memory")) {
      for (const Json& purpose : tier.at("purposes")) {
        const std::string name =
            fmt::format("{}: {}", tier.at("tier").get<std::string>(), purpose.get<std::string>());
        if (std::ranges::find(seen, name) != seen.end()) continue;
        seen.push_back(name);
        const auto cell = [&](const Json& of) {
          const std::string text = most(of, tier.at("tier"), purpose.get<std::string>());
          return text.empty() ? kNothing : text;
        };
        table.rows.push_back({name, cell(run.predicted), cell(run.measured)});
      }
    }
  }
  return table;
}

Table lanes_table(const RunData& run) {
  Table table{.caption = "Lanes in a step of " + run.name,
              .columns = {"lane", "busy, predicted", "busy, measured", "compute waits, predicted"},
              .rows = {}};
  for (const LaneFigures& lane : run.lanes) {
    if (lane.predicted_seconds <= 0 && lane.measured_seconds <= 0) continue;
    table.rows.push_back(
        {lane.name, format_seconds(lane.predicted_seconds),
         lane.measured_seconds < 0 ? kNothing : format_seconds(lane.measured_seconds),
         lane.name == "compute" ? kNothing : format_seconds(lane.exposed_seconds)});
  }
  return table;
}

Table rows_table(Runs runs, std::string caption, Rows RunData::*rows) {
  Table table{.caption = std::move(caption),
              .columns = with_names("", runs),
              .rows = {},
              .numbers = false,
              .marks_differences = true};
  const Words names = names_in(runs, [&](const RunData& run) {
    Words all;
    for (const auto& [name, value] : run.*rows) all.push_back(name);
    return all;
  });
  for (const std::string& name : names) {
    add_row(table, runs, name, [&](const RunData& run) {
      const auto found = std::ranges::find(run.*rows, name, &Rows::value_type::first);
      return found == (run.*rows).end() ? std::string() : found->second;
    });
  }
  return table;
}

class PageWriter {
 public:
  PageWriter(Runs runs, FunctionRef<void(std::string_view)> sink) : runs_(runs), sink_(sink) {}

  void write(const std::string& title) {
    head(title);
    sections();
    sink_("<footer>Made by ebb ");
    sink_(kVersion);
    sink_(". All of it stands in this file; nothing is loaded from elsewhere.</footer>\n");
    sink_("<script type=\"application/json\" id=\"data\">");
    sink_(json_for_script(data_of(runs_)));
    sink_("</script>\n<script>");
    sink_(kPageScript);
    sink_("</script>\n</body>\n</html>\n");
  }

 private:
  void head(const std::string& title) {
    sink_(fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
        "style-src "
        "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>",
        escaped(title)));
    sink_(kPageStyle);
    sink_(fmt::format("</style>\n</head>\n<body>\n<h1>{}</h1>\n", escaped(title)));
  }

  void sections() {
    const auto any = [&](const auto& has) { return std::any_of(runs_.begin(), runs_.end(), has); };
    const bool curves = any([](const RunData& run) { return run.log.steps() > 0; });
    const bool steps = any(
        [](const RunData& run) { return run.predicted.is_object() || run.measured.is_object(); });
    const bool words = any([](const RunData& run) { return !run.words.empty(); });
    sink_("<nav aria-label=\"Sections\">");
    if (curves) sink_("<a href=\"#curves\">Curves</a>");
    if (steps) sink_("<a href=\"#memory\">Memory</a><a href=\"#lanes\">Lanes</a>");
    if (words) sink_("<a href=\"#plan\">Plan</a>");
    sink_("<a href=\"#settings\">Settings</a><a href=\"#tables\">Tables</a></nav>\n");
    for (const RunData& run : runs_) {
      for (const std::string& note : run.notes) {
        sink_(fmt::format("<p class=\"note\">{}: {}</p>\n", escaped(run.name), escaped(note)));
      }
    }
    sink_(
        "<noscript><p class=\"note\">Pictures need a script, which this browser does not run; "
        "the tables have their numbers.</p></noscript>\n");
    sink_(to_html(overview(runs_)));
    if (curves) sink_("<section id=\"curves\"><h2>Curves</h2></section>\n");
    if (steps) {
      sink_(
          "<section id=\"memory\"><h2>Memory over a step</h2></section>\n"
          "<section id=\"lanes\"><h2>Lanes of a step</h2></section>\n");
    }
    if (words) plans();
    sink_("<section id=\"settings\"><h2>Settings, versions, digests</h2>\n");
    about();
    sink_(
        "</section>\n<section id=\"tables\"><h2>Tables</h2>\n<p class=\"soft\">What the pictures "
        "show, in numbers.</p>\n");
    tables();
    sink_("</section>\n");
  }

  void plans() {
    sink_("<section id=\"plan\"><h2>The plan in words</h2>\n");
    for (const RunData& run : runs_) {
      if (run.words.empty()) continue;
      if (runs_.size() > 1) sink_(fmt::format("<h3>{}</h3>\n", escaped(run.name)));
      sink_(fmt::format("<pre tabindex=\"0\">{}</pre>\n", escaped(run.words)));
    }
    sink_("</section>\n");
  }

  void about() {
    if (runs_.size() > 1) {
      sink_("<p class=\"soft\">Rows whose values are not alike have a \xE2\x89\xA0.</p>\n");
    }
    const auto show = [&](const char* caption, Rows RunData::*rows) {
      const Table table = rows_table(runs_, caption, rows);
      if (!table.rows.empty()) sink_(to_html(table));
    };
    show("Model and machine", &RunData::about);
    show("Settings", &RunData::settings);
    show("Digests of the data and of the last checkpoint's files", &RunData::digests);
  }

  void tables() {
    for (const RunData& run : runs_) {
      for (const Table& table :
           {curves_table(run), validation_table(run), memory_table(run), lanes_table(run)}) {
        if (!table.rows.empty()) sink_(to_html(table));
      }
    }
  }

  Runs runs_;
  FunctionRef<void(std::string_view)> sink_;
};

}  // namespace

void write_page(Runs runs, const std::string& title, FunctionRef<void(std::string_view)> sink) {
  PageWriter(runs, sink).write(title);
}

}  // namespace ebb::report
