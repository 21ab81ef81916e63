#include "ebb/hybrid_optimizer.h"

#include <unistd.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "hybrid/optimizer.h"
#include "io/posix_file_system.h"

namespace ebb {

// At one address for good: lanes refer to the optimizer, so only the pointer to this moves.
class HybridOptimizer::Body {
 public:
  Body(const Settings& settings, const std::vector<Parameter>& parameters, void* stream)
      : optimizer(settings, parameters, stream) {}

  // A child of fork() has the memory of its parent's threads but not the threads: work that is
  // queued there never ends, and nor does waiting for it or for them.
  bool is_forked() const { return ::getpid() != process; }

  const pid_t process = ::getpid();
  io::PosixFileSystem files;
  hybrid::Optimizer optimizer;
};

HybridOptimizer::HybridOptimizer(const Settings& settings, std::vector<Parameter> parameters,
                                 void* stream)
    : body_(new Body(settings, parameters, stream)) {}
HybridOptimizer::~HybridOptimizer() = default;
void HybridOptimizer::EndBody::operator()(Body* body) const {
  // In a child of fork() it is left where it is: its end would wait for threads that the child does
  // not have.
  if (!body->is_forked()) delete body;
}
HybridOptimizer::Body& HybridOptimizer::body() const {
  if (body_->is_forked()) {
    throw DeviceError(fmt::format(
        "this optimizer is that of process {}, found process {}, a child of fork(), which has none "
        "of its threads: make one in the child, or start the child with exec (spawn)",
        body_->process, ::getpid()));
  }
  return *body_;
}
HybridOptimizer::HybridOptimizer(HybridOptimizer&&) noexcept = default;
HybridOptimizer& HybridOptimizer::operator=(HybridOptimizer&&) noexcept = default;

std::int64_t HybridOptimizer::parameters() const { return body().optimizer.parameters(); }
std::int64_t HybridOptimizer::steps() const { return body().optimizer.steps(); }
HybridOptimizer::Placement HybridOptimizer::placement() const {
  return body().optimizer.placement();
}
HybridOptimizer::Traffic HybridOptimizer::traffic() const { return body().optimizer.traffic(); }

void HybridOptimizer::set_gradient(std::int64_t parameter, const void* gradient) {
  body().optimizer.set_gradient(parameter, gradient);
}
void HybridOptimizer::gradient_ready(std::int64_t parameter, void* stream) {
  body().optimizer.gradient_ready(parameter, stream);
}
HybridOptimizer::StepReport HybridOptimizer::step(double learning_rate, double clip, void* stream) {
  return body().optimizer.step(learning_rate, clip, stream);
}
HybridOptimizer::StepReport HybridOptimizer::step(std::span<const GroupStep> groups, double clip,
                                                  double gradient_scale, void* stream) {
  return body().optimizer.step(groups, clip, gradient_scale, stream);
}
void HybridOptimizer::leave_out(std::int64_t parameter) { body().optimizer.leave_out(parameter); }
void HybridOptimizer::discard() { body().optimizer.discard(); }
void HybridOptimizer::wait_for_weight(std::int64_t parameter, void* stream) {
  body().optimizer.wait_for_weight(parameter, stream);
}
void HybridOptimizer::wait() { body().optimizer.wait(); }
void HybridOptimizer::weights_changed(void* stream) { body().optimizer.weights_changed(stream); }

void HybridOptimizer::save(const std::string& path) { body().optimizer.save(body().files, path); }
void HybridOptimizer::load(const std::string& path, void* stream) {
  body().optimizer.load(body().files, path, stream);
}

void HybridOptimizer::read_master(std::int64_t parameter, std::span<float> to) {
  body().optimizer.read_master(parameter, to);
}
void HybridOptimizer::write_master(std::int64_t parameter, std::span<const float> from,
                                   void* stream) {
  body().optimizer.write_master(parameter, from, stream);
}
std::int64_t HybridOptimizer::steps_of(std::int64_t parameter) const {
  return body().optimizer.steps_of(parameter);
}
void HybridOptimizer::set_steps(std::int64_t parameter, std::int64_t steps) {
  body().optimizer.set_steps(parameter, steps);
}
void HybridOptimizer::read_moments(std::int64_t parameter, std::span<float> first,
                                   std::span<float> second) {
  body().optimizer.read_moments(parameter, first, second);
}
void HybridOptimizer::write_moments(std::int64_t parameter, std::span<const float> first,
                                    std::span<const float> second) {
  body().optimizer.write_moments(parameter, first, second);
}
Bytes HybridOptimizer::stored_moments(std::int64_t parameter) const {
  return body().optimizer.stored_moments(parameter);
}
void HybridOptimizer::read_stored_moments(std::int64_t parameter, std::span<std::byte> to) {
  body().optimizer.read_stored_moments(parameter, to);
}
void HybridOptimizer::write_stored_moments(std::int64_t parameter,
                                           std::span<const std::byte> from) {
  body().optimizer.write_stored_moments(parameter, from);
}
std::string HybridOptimizer::weights_digest() { return body().optimizer.store().weights_digest(); }
std::string HybridOptimizer::moments_digest() {
  return body().optimizer.store().stored_moments_digest();
}

}  // namespace ebb
