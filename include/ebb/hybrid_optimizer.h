// The optimizer as a library, for training loops of one's own: it keeps the masters and moments of
// parameters that the caller owns, on the device, in host memory or some here and some there, and
// updates them on the device or on the CPU. It takes pointers, sizes and (on a GPU) the caller's
// stream; it knows no model. docs/optimizer_library.md is the guide.
//
//   ebb::HybridOptimizer optimizer(settings, parameters);
//   for each step:
//     optimizer.wait_for_weight(p)    before the forward pass reads the weight of p
//     optimizer.gradient_ready(p)     as soon as the backward pass has made p's gradient
//     optimizer.step(learning_rate, clip)
//
// Where a state lives and how it is cut never changes a bit of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/units.h"

namespace ebb {

// Calls come from one thread at a time, of the process that made the optimizer: in a child of
// fork(), which has none of its threads, every call throws a DeviceError, and destroying it there
// does nothing. Failures are an ebb::Error: ConfigError before anything was touched; after a
// DeviceError or an IoError of load() every later call throws it again.
//
// A `stream` is a cudaStream_t, null for the default one. On the cpu device, where the caller's
// memory is ordinary memory, it is ignored, and what is said to wait blocks the calling thread.
class HybridOptimizer {
 public:
  enum class Type : std::uint8_t { bf16, fp32 };

  // Weight and gradient are device memory: of the GPU with CUDA. The caller owns both and keeps
  // them, the weight at its address, for as long as the optimizer lives. With bf16 weights the
  // master is the weight and a low half that the optimizer keeps; fp32 weights are the master.
  struct Parameter {
    std::string name;
    void* weight = nullptr;
    Type weight_type = Type::bf16;
    const void* gradient = nullptr;  // may come later, with set_gradient()
    Type gradient_type = Type::bf16;
    std::int64_t count = 0;
    bool decays = true;      // false for biases and norms: no weight decay
    std::int64_t group = 0;  // which of the groups of a step it belongs to
  };

  // What is not set is as the rule has it by default: adamw has betas 0.9 and 0.95, epsilon 1e-8
  // and decay 0.1. Setting what a rule does not have is an error.
  struct Rule {
    std::string name = "adamw";  // adam (L2 in the gradient), lion, sgd, adagrad
    std::optional<double> beta1{};
    std::optional<double> beta2{};
    std::optional<double> epsilon{};
    std::optional<double> weight_decay{};
    std::optional<double> momentum{};
    std::optional<bool> nesterov{};
  };

  // The words are those of the command line.
  struct Settings {
    Rule rule;
    std::string state_format = "exact";  // bf16, int8: adamw alone
    std::string states = "stream";       // resident, stream, host: where states are updated
    // The share of the parameters, by count, whose state leaves the device: 1 unless states is
    // resident. The parameters listed last leave first, as forward passes need them last.
    std::optional<double> offload_fraction{};
    // The share of all parameters, part of the above, that the CPU updates while the rest is
    // streamed. 0 with stream, all that leaves with host.
    std::optional<double> host_fraction{};
    // Moved and updated at a time; 0: a 64th of all, at least 16 Ki and at most 4 Mi.
    std::int64_t chunk_parameters = 0;
    Bytes window = 0;  // of device memory that states are streamed through; 0: four chunks' worth
    // Limits on what the optimizer itself holds; none means what the machine has.
    std::optional<Bytes> device_memory{};
    std::optional<Bytes> host_memory{};
    std::string device = "cpu";  // or cuda; auto for a GPU where there is one
    int threads = 0;             // of the CPU, at most 4096; 0: as many as the machine lets us use
    std::uint64_t seed = 0;      // compact formats round at random
  };

  // What a step has for the parameters of one group. What is not set is as in the settings; setting
  // what the rule does not have is an error.
  struct GroupStep {
    double learning_rate = 0;
    std::optional<double> beta1{};
    std::optional<double> beta2{};
    std::optional<double> epsilon{};
    std::optional<double> weight_decay{};
    std::optional<double> momentum{};
    std::optional<bool> nesterov{};
  };

  struct StepReport {
    std::int64_t step = 0;  // steps applied so far, this one included
    double norm = 0;        // of all gradients together, before clipping
    double clip_factor = 1;
    bool applied = true;          // false: the norm is not finite, and nothing was touched
    std::int64_t first_bad = -1;  // then the first parameter that makes it so
  };

  struct Placement {
    Bytes device_bytes = 0;  // held by the optimizer
    Bytes host_bytes = 0;
    std::int64_t resident_parameters = 0;
    std::int64_t streamed_parameters = 0;
    std::int64_t host_parameters = 0;
  };

  struct Traffic {
    Bytes up = 0;  // host to device, since the start
    Bytes down = 0;
  };

  // Takes all memory that there ever will be, and the weights as the first masters, behind what the
  // stream has queued. Throws OutOfBudget, with a table, where the limits do not allow it.
  HybridOptimizer(const Settings& settings, std::vector<Parameter> parameters,
                  void* stream = nullptr);
  ~HybridOptimizer();  // ends what is under way
  HybridOptimizer(HybridOptimizer&&) noexcept;
  HybridOptimizer& operator=(HybridOptimizer&&) noexcept;

  std::int64_t parameters() const;
  std::int64_t steps() const;  // applied so far
  Placement placement() const;
  Traffic traffic() const;

  // A parameter is its index in the list. For gradients that move between steps. Refused: memory of
  // a weight, and of another gradient between its gradient_ready() and wait_for_weight().
  void set_gradient(std::int64_t parameter, const void* gradient);

  // The gradient is what the stream has queued up to now leaves there. Its squares are summed and
  // it starts on its way down, if that is where it goes. It stays as it is until wait_for_weight(),
  // in memory that no other gradient has until then.
  // Once a step for every parameter, in any order.
  void gradient_ready(std::int64_t parameter, void* stream = nullptr);

  // Instead of gradient_ready(): the parameter has no gradient in this step. Its weight, its
  // moments and the count of its steps stay as they are, and nobody need wait for its weight.
  void leave_out(std::int64_t parameter);

  // The gradients that are ready are not: none is waited for, and what was queued for them has
  // ended on return. For a step that will not be made.
  void discard();

  // Clips by the exact norm of all gradients (0: no clipping) and queues the updates, behind what
  // the stream has queued, as that may still read weights. Blocks until the norm is known, no
  // longer. A learning rate alone is that of every group.
  StepReport step(double learning_rate, double clip = 0, void* stream = nullptr);
  // Of `groups` a parameter takes the one at its index. Gradients are what lies there divided by
  // `gradient_scale`, which losses were multiplied with; so are the norm and what it is clipped by.
  StepReport step(std::span<const GroupStep> groups, double clip = 0, double gradient_scale = 1,
                  void* stream = nullptr);

  // What the stream is given later sees the parameter's updated weight, and may overwrite its
  // gradient.
  void wait_for_weight(std::int64_t parameter, void* stream = nullptr);
  // Blocks until all updates have ended.
  void wait();

  // The caller has written the weights (loaded a model, say): they are the masters from now on.
  // Moments stay. Between steps, behind what the stream has queued.
  void weights_changed(void* stream = nullptr);

  // All of the state, weights included, in one safetensors file that appears at once or not at all.
  // It has one count of steps: refused where parameters have taken different numbers of them.
  void save(const std::string& path);
  // Between steps. Placement, limits and format may be others than those it was saved with: moments
  // of another format are converted. Weights are written too, behind what the stream has queued.
  // The seed and the count of steps are the file's. Throws FormatError before anything is touched.
  void load(const std::string& path, void* stream = nullptr);

  // The fp32 masters of a parameter into host memory of as many elements as it has.
  void read_master(std::int64_t parameter, std::span<float> to);
  // The other way, between steps; writes the weight, behind what the stream has queued.
  void write_master(std::int64_t parameter, std::span<const float> from, void* stream = nullptr);

  // How many steps the parameter has taken, from which the next one's numbers are made. Written
  // between steps.
  std::int64_t steps_of(std::int64_t parameter) const;
  void set_steps(std::int64_t parameter, std::int64_t steps);

  // The moments of a parameter as fp32, as many elements each as it has; `second` is empty for
  // rules that keep one. Writing, between steps, rounds to the nearest of the state's format.
  void read_moments(std::int64_t parameter, std::span<float> first, std::span<float> second);
  void write_moments(std::int64_t parameter, std::span<const float> first,
                     std::span<const float> second);
  // The same as the format has them, which loses nothing: plane by plane, of stored_moments()
  // bytes.
  Bytes stored_moments(std::int64_t parameter) const;
  void read_stored_moments(std::int64_t parameter, std::span<std::byte> to);
  void write_stored_moments(std::int64_t parameter, std::span<const std::byte> from);

  // Digests of all masters and of all moments: equal bits, equal digests, wherever they lie.
  std::string weights_digest();
  std::string moments_digest();

 private:
  class Body;
  struct EndBody {
    void operator()(Body* body) const;
  };
  Body& body() const;
  std::unique_ptr<Body, EndBody> body_;
};

}  // namespace ebb
