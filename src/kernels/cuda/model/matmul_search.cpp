// The choice of a product's algorithm. Under load a card's power bounds its clock, and an algorithm
// that is the fastest in a burst may draw more than it gains: measured, the fastest of bursts made
// a training step 2% slower. So a burst only tells who may be fast; those few then run long enough
// for the clock to settle at what each of them draws, which is what they cost in a training step
// too.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/handle.h"
#include "kernels/cuda/model/matmul_plans.h"

namespace ebb::kernels {
namespace {

constexpr int kBurst = 2, kBursts = 3;
constexpr double kSettleSeconds = 1.5;  // until the clock of a rested card is that of a busy one

constexpr std::size_t kVaried = 3;  // of the fastest in bursts
constexpr std::size_t kFinalists = 8;

// How long a runner runs before it is timed, and timed.
struct Patience {
  double warm, fewest, most;
  int runs;
};
constexpr Patience kFirstRound{.warm = 0.05, .fewest = 0.04, .most = 0.12, .runs = 80};
constexpr Patience kLastRound{.warm = 0.1, .fewest = 0.1, .most = 0.3, .runs = 200};

// Of the time of the library's own first choice. In the first round one of many is the fastest by
// chance; in the last each has its turn more than once.
constexpr double kPromising = 0.985, kWorthwhile = 0.99;
constexpr std::size_t kInLastRound = 3;
constexpr int kTurns = 2;

template <class T>
bool configure(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
               const T& value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, name, &value, sizeof value) ==
         CUBLAS_STATUS_SUCCESS;
}

}  // namespace

double MatmulPlans::seconds(const Trial& trial, const Algorithm& algorithm, int runs) const {
  const device::EventHandle start = device::make_event(cudaEventDefault);
  const device::EventHandle stop = device::make_event(cudaEventDefault);
  device::check(cudaEventRecord(start.get(), trial.stream), "cudaEventRecord");
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (int k = 0; k < runs && status == CUBLAS_STATUS_SUCCESS; ++k) {
    status = queue(trial.plan, algorithm, trial.product, trial.workspace, trial.stream);
  }
  device::check(cudaEventRecord(stop.get(), trial.stream), "cudaEventRecord");
  device::check(cudaEventSynchronize(stop.get()), "the search for a matrix algorithm");
  if (status != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<double>::infinity();
  float milliseconds = 0;
  device::check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                "cudaEventElapsedTime");
  return milliseconds * 1e-3 / runs;
}

// The same algorithm with other orders and groups of tiles, where the library has them.
std::vector<cublasLtMatmulAlgo_t> MatmulPlans::variations(const Plan& plan,
                                                          const Algorithm& algorithm) const {
  constexpr std::uint32_t kOrders[] = {0, 1};
  constexpr cublasLtClusterShape_t kGroups[] = {
      CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1};
  std::vector<Algorithm> found;
  for (const std::uint32_t order : kOrders) {
    for (const cublasLtClusterShape_t group : kGroups) {
      Algorithm other = algorithm;
      if (configure(other, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, order) &&
          configure(other, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
                    static_cast<std::uint16_t>(group)) &&
          fits(plan, other)) {
        found.push_back(other);
      }
    }
  }
  return found;
}

void MatmulPlans::search(const Product& product, std::byte* workspace, cudaStream_t stream) {
  Plan& plan = this->plan(product);
  if (!plan.found) return;
  plan.chosen = true;
  const Trial trial{plan, product, workspace, stream};
  struct Runner {
    double seconds;
    Algorithm algorithm;
  };
  const auto in_bursts = [&](const Algorithm& algorithm) {
    double best = seconds(trial, algorithm, 1);  // loads the kernel
    for (int k = 0; k < kBursts; ++k) best = std::min(best, seconds(trial, algorithm, kBurst));
    return Runner{best, algorithm};
  };
  const auto for_seconds = [&](const Runner& runner, double time) {
    const int runs = std::max(1, static_cast<int>(std::ceil(time / runner.seconds)));
    return seconds(trial, runner.algorithm, runs);
  };
  const auto sustained = [&](const Runner& runner, const Patience& patience) {
    for_seconds(runner, patience.warm);
    return for_seconds(runner,
                       std::clamp(patience.runs * runner.seconds, patience.fewest, patience.most));
  };
  const auto sort = [](std::vector<Runner>& runners) {
    std::sort(runners.begin(), runners.end(),
              [](const Runner& a, const Runner& b) { return a.seconds < b.seconds; });
  };

  const Runner first = in_bursts(plan.offered.front());
  if (!std::exchange(settled_, true)) for_seconds(first, kSettleSeconds);
  std::vector<Runner> others;
  const auto add = [&](const Algorithm& algorithm) {
    const Runner runner = in_bursts(algorithm);
    if (std::isfinite(runner.seconds)) others.push_back(runner);
  };
  for (std::size_t i = 1; i < plan.offered.size(); ++i) add(plan.offered[i]);
  sort(others);
  const std::vector<Runner> fastest(others.begin(),
                                    others.begin() + std::min(others.size(), kVaried));
  for (const Runner& runner : fastest) {
    for (const Algorithm& other : variations(plan, runner.algorithm)) add(other);
  }
  sort(others);
  if (others.size() > kFinalists) others.resize(kFinalists);

  double to_beat = sustained(first, kFirstRound);
  for (Runner& runner : others) runner.seconds = sustained(runner, kFirstRound);
  to_beat = std::min(to_beat, sustained(first, kFirstRound));
  sort(others);
  if (others.empty() || others.front().seconds > kPromising * to_beat) return;

  others.resize(std::min(others.size(), kInLastRound - 1));
  others.push_back(first);
  std::vector<double> totals(others.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < others.size(); ++i) totals[i] += sustained(others[i], kLastRound);
  }
  const auto best = std::min_element(totals.begin(), totals.end());
  if (*best > kWorthwhile * totals.back()) return;
  plan.algorithm = others[static_cast<std::size_t>(best - totals.begin())].algorithm;
}

}  // namespace ebb::kernels
