// Rows of `ebb bench generate`: a model is loaded, its tests are timed, and it is taken down again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/runtime.h"
#include "files/model/source.h"
#include "io/file_system.h"
#include "measure/bench/generation_ceiling.h"
#include "measure/bench/generation_tests.h"
#include "measure/bench/peak.h"

namespace ebb::measure {

struct GenerationRow {
  GenerationSetup setup{};
  GenerationTest test{};
  int threads = 0;
  DType dtype = DType::bf16;
  std::int64_t parameters = 0;
  std::string refusal{};  // why nothing was measured: it does not fit, or
  bool failed = false;    // the device failed
  // All below where there is no refusal.
  Bytes weight_bytes = 0;                               // on all tiers
  std::vector<std::pair<std::string, Bytes>> places{};  // of the weights, by the tier's name
  double predicted_seconds = 0;   // by the plan that is made for this test alone
  std::vector<double> seconds{};  // of each repetition
  GenerationCost cost{};
  GenerationRates rates{};
  double load_seconds = 0;  // of the weights, from where they are or made up
  // Of the loaded model: its cache has room for the longest test that it serves.
  Peak device{};
  Peak host{};

  double mean_seconds() const;
  // Tokens a second: of each repetition, their mean and their standard deviation, which is 0 where
  // there is one.
  std::vector<double> speeds() const;
  double speed() const;
  double deviation() const;
  double predicted_speed() const;
  // Nothing where no ceiling is known.
  std::optional<double> ceiling_speed() const;
  std::optional<double> share_of_ceiling() const;
};

// For one thread. One model at a time has memory. That a test does not fit, or that the device
// fails, is a row's result and not an exception.
class GenerationRunner {
 public:
  // What comes next and the number of rows that are behind.
  using Tell = std::function<void(const std::string& now, double rows)>;

  // Keeps references. The machine's memory as it is now is the limit of all rows.
  GenerationRunner(engine::Runtime& runtime, io::FileSystem& files,
                   const GenerateBenchOptions& options);

  // Rows in the order of the tests. `found` hears of each as soon as it is measured.
  std::vector<GenerationRow> run(const GenerationSetup& setup,
                                 const std::vector<GenerationTest>& tests, const Tell& tell,
                                 const std::function<void(const GenerationRow&)>& found);

 private:
  struct Planned;  // a test and the plan that is made for it alone

  const GenerationRates& rates_for(DType dtype,
                                   const std::function<void(const std::string&)>& tell);
  // Loads the model for the first of `waiting`, and for as many of the others as it can serve;
  // removes those and fills their rows.
  void load_and_time(const files::ModelSource& source, std::vector<Planned>& waiting,
                     std::vector<GenerationRow>& rows,
                     const std::function<void(const std::string&)>& tell,
                     const std::function<void(const GenerationRow&)>& found);
  void time(engine::Generator& generator, std::int64_t vocabulary, GenerationRow& row);

  engine::Runtime& runtime_;
  io::FileSystem& files_;
  const GenerateBenchOptions& options_;
  engine::MachineMemory machine_;
  std::map<DType, GenerationRates> rates_;
};

}  // namespace ebb::measure
