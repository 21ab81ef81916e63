// What CUDA model ops are made from: cuBLASLt's handle and one plan for each kind of product,
// cuDNN's handle and one plan for each shape of attention, and what is fused on this device.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/model/fused_activation.h"
#include "kernels/cuda/model/fused_attention.h"
#include "kernels/cuda/model/matmul_plans.h"
#include "kernels/model_library.h"

namespace ebb::kernels {

class CudaModelLibrary final : public ModelLibrary, public GemmTuner {
 public:
  CudaModelLibrary();

  Bound<ModelOps> ops(const ExecutionContext& context) override;
  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const MatmulOptions& options) const override;
  Bytes linear_scratch(const Linear& linear) const override;
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override;
  Bytes library_bytes() const override { return 0; }
  void prepare(const Product& product) override { products_.chosen(product); }
  std::int64_t entries() const override;

  GemmTuner* product_search() override { return this; }
  std::string conditions() const override;
  std::string method() const override { return "timed under load, 2"; }
  void load_choices(const GemmChoices& choices) override { products_.load_choices(choices); }
  GemmChoices choices() const override { return products_.choices(); }
  bool chosen(const Product& product) override { return products_.chosen(product); }
  Bytes search_bytes(const Product& product) const override;
  void search(const Product& product, const ExecutionContext& context) override;

  // Parts of the library that its ops use.
  MatmulPlans& products() { return products_; }
  FusedAttention* fused_attention() { return fused_attention_.get(); }
  FusedActivation* fused_activation() { return fused_activation_.get(); }

 private:
  MatmulPlans products_;
  // Null where they are not built.
  std::unique_ptr<FusedAttention> fused_attention_;
  std::unique_ptr<FusedActivation> fused_activation_;
};

}  // namespace ebb::kernels
