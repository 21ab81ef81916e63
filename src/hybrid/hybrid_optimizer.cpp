#include "ebb/hybrid_optimizer.h"

#include "hybrid/optimizer.h"
#include "io/posix_file_system.h"

namespace ebb {

class HybridOptimizer::Body {
 public:
  Body(const Settings& settings, const std::vector<Parameter>& parameters, void* stream)
      : optimizer(settings, parameters, stream) {}

  io::PosixFileSystem files;
  hybrid::Optimizer optimizer;
};

HybridOptimizer::HybridOptimizer(const Settings& settings, std::vector<Parameter> parameters,
                                 void* stream)
    : body_(std::make_unique<Body>(settings, parameters, stream)) {}
HybridOptimizer::~HybridOptimizer() = default;
HybridOptimizer::HybridOptimizer(HybridOptimizer&&) noexcept = default;
HybridOptimizer& HybridOptimizer::operator=(HybridOptimizer&&) noexcept = default;

std::int64_t HybridOptimizer::parameters() const { return body_->optimizer.parameters(); }
std::int64_t HybridOptimizer::steps() const { return body_->optimizer.steps(); }
HybridOptimizer::Placement HybridOptimizer::placement() const {
  return body_->optimizer.placement();
}
HybridOptimizer::Traffic HybridOptimizer::traffic() const { return body_->optimizer.traffic(); }

void HybridOptimizer::set_gradient(std::int64_t parameter, const void* gradient) {
  body_->optimizer.set_gradient(parameter, gradient);
}
void HybridOptimizer::gradient_ready(std::int64_t parameter, void* stream) {
  body_->optimizer.gradient_ready(parameter, stream);
}
HybridOptimizer::StepReport HybridOptimizer::step(double learning_rate, double clip, void* stream) {
  return body_->optimizer.step(learning_rate, clip, stream);
}
void HybridOptimizer::wait_for_weight(std::int64_t parameter, void* stream) {
  body_->optimizer.wait_for_weight(parameter, stream);
}
void HybridOptimizer::wait() { body_->optimizer.wait(); }
void HybridOptimizer::weights_changed(void* stream) { body_->optimizer.weights_changed(stream); }

void HybridOptimizer::save(const std::string& path) { body_->optimizer.save(body_->files, path); }
void HybridOptimizer::load(const std::string& path, void* stream) {
  body_->optimizer.load(body_->files, path, stream);
}

void HybridOptimizer::read_master(std::int64_t parameter, std::span<float> to) {
  body_->optimizer.read_master(parameter, to);
}
std::string HybridOptimizer::weights_digest() { return body_->optimizer.store().weights_digest(); }
std::string HybridOptimizer::moments_digest() { return body_->optimizer.store().moments_digest(); }

}  // namespace ebb
