// What HybridOptimizer is made of: the chunks' homes, the lanes between them, and what is queued
// where when a gradient is ready and when a step is made.
//
//   gradients   a chunk's gradients to the host                        (host site)
//   compute     sums of squares; updates on the device                 (resident, stream)
//   in, out     a chunk's state into the window and back to the host   (stream)
//   host        updates by the CPU                                     (host)
//   weights     a chunk's weights from the host                        (host)
//
// Copies in one direction have two lanes, as those of the host site wait for the CPU and would
// hold up the states behind them. Only the norm makes the calling thread wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/list.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "exec/lanes.h"
#include "hybrid/chunks.h"
#include "hybrid/gradients_in_use.h"
#include "hybrid/memory.h"
#include "hybrid/settings.h"
#include "hybrid/state_file.h"
#include "hybrid/state_store.h"
#include "io/file_system.h"
#include "kernels/optimizer_library.h"
#include "states/clip.h"
#include "states/updates.h"

namespace ebb::hybrid {

// For one thread at a time, as HybridOptimizer. Work that failed on a lane is thrown by the next
// call that queues or waits, and by all after it; then only the destructor may follow.
class Optimizer {
 public:
  using StepReport = HybridOptimizer::StepReport;
  using GroupStep = HybridOptimizer::GroupStep;

  // As HybridOptimizer's. With a `slow_lanes_seed` other than 0, lanes pause at random: for tests
  // of ordering.
  Optimizer(const Settings& settings, const std::vector<HybridOptimizer::Parameter>& parameters,
            void* stream, std::uint64_t slow_lanes_seed = 0);
  ~Optimizer();

  std::int64_t parameters() const { return static_cast<std::int64_t>(parameters_.size()); }
  std::int64_t steps() const { return info_.step; }
  HybridOptimizer::Placement placement() const;
  HybridOptimizer::Traffic traffic() const { return {up_bytes_, down_bytes_}; }
  const List<Chunk>& chunks() const { return map_.chunks; }
  StateStore& store();  // after wait()

  void set_gradient(std::int64_t parameter, const void* gradient);
  void gradient_ready(std::int64_t parameter, void* stream);
  void leave_out(std::int64_t parameter);
  void discard();
  StepReport step(double learning_rate, double clip, void* stream);
  StepReport step(std::span<const GroupStep> groups, double clip, double gradient_scale,
                  void* stream);
  void wait_for_weight(std::int64_t parameter, void* stream);
  void wait();
  void weights_changed(void* stream);
  void read_master(std::int64_t parameter, std::span<float> to);
  void write_master(std::int64_t parameter, std::span<const float> from, void* stream);
  std::int64_t steps_of(std::int64_t parameter) const;
  void set_steps(std::int64_t parameter, std::int64_t steps);
  void read_moments(std::int64_t parameter, std::span<float> first, std::span<float> second);
  void write_moments(std::int64_t parameter, std::span<const float> first,
                     std::span<const float> second);
  Bytes stored_moments(std::int64_t parameter) const;
  void read_stored_moments(std::int64_t parameter, std::span<std::byte> to);
  void write_stored_moments(std::int64_t parameter, std::span<const std::byte> from);
  void save(io::FileSystem& files, const std::filesystem::path& path);
  void load(io::FileSystem& files, const std::filesystem::path& path, void* stream);

 private:
  // A parameter's standing from step to step.
  struct GradientStatus {
    std::unique_ptr<device::Buffer> weight;  // the caller's, made known to the device
    std::unique_ptr<device::Event> ready;    // recorded by the caller's stream
    bool is_ready = false;                   // or it is known that there is none
    bool is_left_out = false;                // the latter
    bool is_awaited = true;                  // the caller waited for its weight since the last step
    std::int64_t steps = 0;                  // taken so far
  };
  // Events of a chunk, those that its site needs. Each is recorded once a step at most.
  struct ChunkStatus {
    std::size_t chunk = 0;
    int gradients_missing = 0;               // parts whose gradient is not ready yet
    std::unique_ptr<device::Event> down;     // host site: its gradients are on the host
    std::unique_ptr<device::Event> updated;  // host site: by the CPU
    std::unique_ptr<device::Event> in;       // stream: its state is in the window
    std::unique_ptr<device::Event> done;     // its weights are what the step made of them
  };

  // What each parameter takes of a step: nothing where it is left out.
  using StepNumbers = List<std::optional<kernels::Step>>;

  GradientStatus& gradient_status(std::int64_t parameter);
  const GradientStatus& gradient_status(std::int64_t parameter) const;
  ChunkStatus& chunk_status(int chunk) { return chunk_status_[chunk]; }
  // The caller's stream, made known to the device by its first use and kept; null is the default
  // one.
  device::ForeignStream& foreign(void* stream);
  // The lanes wait for what the caller's stream has queued up to now.
  void order_behind(void* stream, std::initializer_list<device::Stream*> lanes);
  // Throws ConfigError, naming `what`, where a gradient of the next step is ready already.
  void require_between_steps(std::string_view what) const;
  // Throws ConfigError where a call has another count of elements or bytes than the parameter has.
  void require_count(std::string_view what, std::int64_t parameter, std::size_t given,
                     std::int64_t expected) const;
  // The store, for moments and masters that are written between steps: what was fetched is stale.
  StateStore& store_to_write(std::string_view what);

  // Queues work that may throw: the first failure ends all work, and is thrown by later calls.
  template <class Work>
  void queue(device::Stream& lane, Work work);
  // Runs what issues work; what it throws has left the lanes in disorder.
  void issue(FunctionRef<void()> calls);
  // Queues a copy; counts it in one of the directions once it is on its way.
  void queue_copy(device::Stream& lane, void* to, const void* from, Bytes bytes,
                  std::atomic<Bytes>& moved);

  // All memory of the optimizer becomes zeros; the device's behind what compute has queued.
  void clear_states();
  void start_fetching();
  void fetch(std::size_t streamed);
  void send_gradients(std::int64_t parameter);
  // A gradient of the chunk's is on its way down, or will not come.
  void count_gradient(ChunkStatus& chunk);
  // Nobody counts on gradients any more: the next step's may come.
  void forget_gradients();
  // Blocks until every gradient's squares are summed: the one wait of a step.
  states::GradientNorm find_norm(double clip, double gradient_scale);
  std::shared_ptr<const StepNumbers> step_numbers(const std::vector<states::Rule>& rules,
                                                  std::span<const GroupStep> groups) const;
  // Each queues the updates of its site, in the order of the chunks, and returns.
  void update_on_host(const std::shared_ptr<const StepNumbers>& numbers,
                      const kernels::StepScale& scale);
  void update_resident(const std::shared_ptr<const StepNumbers>& numbers);
  void update_streamed(const std::shared_ptr<const StepNumbers>& numbers);
  // Runs on the host or compute lane.
  void update(std::size_t chunk, std::byte* state, bool on_host, const StepNumbers& numbers,
              const kernels::StepScale* scale);

  // Declared in the order that they need each other; lanes last, as their end waits for the work.
  List<Parameter> parameters_;
  Choices choices_;
  StateInfo info_;
  ChunkMap map_;
  ThreadPool pool_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<kernels::OptimizerLibrary> device_library_;
  std::unique_ptr<kernels::OptimizerLibrary> host_library_;
  List<GradientStatus> gradient_status_;
  Memory memory_;
  List<ChunkStatus> chunk_status_;
  std::vector<std::size_t> resident_;  // indices of chunks, in their order; so the next two
  std::vector<std::size_t> streamed_;
  std::vector<std::size_t> hosted_;
  std::vector<std::unique_ptr<device::Event>> out_of_slot_;  // the state there went home
  std::unique_ptr<device::Event> behind_caller_;
  std::unique_ptr<device::Event> norm_known_;
  std::unique_ptr<device::Event> host_ended_;
  std::map<void*, std::unique_ptr<device::ForeignStream>> foreign_;
  bool fetching_ = false;   // the window's first states are on their way in, or there
  std::int64_t ready_ = 0;  // gradients of the step that is being gathered
  GradientsInUse in_use_;
  std::uint64_t slow_lanes_seed_;
  std::uint64_t queued_ = 0;  // pieces of work so far: their numbers name random pauses
  std::atomic<Bytes> up_bytes_{0};
  std::atomic<Bytes> down_bytes_{0};
  exec::Lanes lanes_;
  device::Stream& compute_;
  device::Stream& in_;
  device::Stream& out_;
  device::Stream& gradients_;
  device::Stream& weights_;
  device::Stream& host_;
  StateStore store_;
};

// A third of the work is late where lanes are slow. All work is of time 0: a failure ends
// everything.
template <class Work>
void Optimizer::queue(device::Stream& lane, Work work) {
  lanes_.submit(lane, 0, [this, &lane, work = std::move(work), number = ++queued_] {
    exec::pause_at_random(lane, slow_lanes_seed_, 0, number, 1.0 / 3);
    work();
  });
}

}  // namespace ebb::hybrid
