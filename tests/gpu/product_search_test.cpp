// The search for matrix algorithms: what it keeps is used again, to the bit, by who loads it.
#include "kernels/gemm_tuner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "gpu/gpu_test.h"
#include "kernels/cuda/model_library.h"

namespace ebb::kernels {
namespace {

class ProductSearches : public GpuTest {
 protected:
  static constexpr std::int64_t kRows = 512, kCols = 640, kDepth = 2048;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    stream_ = gpu().create_stream(device::StreamKind::compute, "compute");
    memory_ = gpu().allocate_device(64 * kMiB);
    scratch_ = gpu().allocate_device(64 * kMiB);
    std::vector<bf16> values(static_cast<std::size_t>(memory_->bytes() / 2));
    const CounterRng rng(5, 5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = to_bf16(static_cast<float>(rng.normal(i % 999983)));
    }
    stream_->copy_now(memory_->data(), values.data(), memory_->bytes());
  }

  ExecutionContext in(const device::Buffer& memory) const {
    return {stream_.get(), {memory.data(), static_cast<std::size_t>(memory.bytes())}};
  }

  // As a layer with a bias that is added to a residual stream.
  Product product() const {
    std::byte* const base = memory_->data();
    return {{base, DType::bf16, kRows, kCols, kCols},
            {base + 8 * kMiB, DType::bf16, kRows, kDepth, kDepth},
            {base + 16 * kMiB, DType::bf16, kCols, kDepth, kDepth},
            {.transpose_b = true, .bias = base + 32 * kMiB, .addend = base + 40 * kMiB}};
  }

  std::vector<std::uint16_t> result(ModelLibrary& library) {
    const Product p = product();
    stream_->submit([&] { library.ops(in(*scratch_))->matmul(p); });
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(kRows * kCols));
    stream_->copy_now(bits.data(), p.c.data, kRows * kCols * 2);
    return bits;
  }

  void search(ModelLibrary& library) {
    GemmTuner& products = *library.product_search();
    const auto memory = gpu().allocate_device(products.search_bytes(product()));
    products.search(product(), in(*memory));
  }

  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Buffer> memory_, scratch_;
};

TEST_F(ProductSearches, AChoiceIsKeptAndUsedByWhoLoadsIt) {
  const auto first = create_cuda_model_library();
  GemmTuner& searched = *first->product_search();
  EXPECT_FALSE(searched.chosen(product()));
  EXPECT_TRUE(searched.choices().empty());
  const Product p = product();
  const auto bytes = static_cast<std::size_t>(kRows * kDepth * 2);
  std::vector<std::byte> before(bytes), after(bytes);
  stream_->copy_now(before.data(), p.a.data, static_cast<Bytes>(bytes));
  search(*first);
  stream_->copy_now(after.data(), p.a.data, static_cast<Bytes>(bytes));
  EXPECT_EQ(std::memcmp(before.data(), after.data(), bytes), 0) << "a search uses its own memory";
  EXPECT_TRUE(searched.chosen(product()));
  const GemmChoices choices = searched.choices();
  ASSERT_EQ(choices.size(), 1u);
  const std::vector<std::uint16_t> expected = result(*first);

  const auto second = create_cuda_model_library();
  GemmTuner& loaded = *second->product_search();
  loaded.load_choices(choices);
  EXPECT_TRUE(loaded.chosen(product()));
  EXPECT_EQ(loaded.choices(), choices);
  EXPECT_EQ(result(*second), expected);
}

TEST_F(ProductSearches, WhatIsNoChoiceIsLeftOut) {
  const auto first = create_cuda_model_library();
  search(*first);
  const GemmChoices choices = first->product_search()->choices();
  const std::string& name = choices.begin()->first;
  const std::string& choice = choices.begin()->second;
  for (const std::string& text : {std::string(), std::string("fast"), choice + " 1",
                                  choice.substr(0, choice.rfind(' ')), " " + choice}) {
    const auto library = create_cuda_model_library();
    library->product_search()->load_choices({{name, text}, {"1 2 3", text}, {"", text}});
    EXPECT_FALSE(library->product_search()->chosen(product())) << text;
    EXPECT_NO_THROW(result(*library)) << text;
  }
}

}  // namespace
}  // namespace ebb::kernels
