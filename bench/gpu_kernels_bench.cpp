// How fast the GPU's kernels run on the shapes of a preset's training step, in some seconds:
//
//   gpu_kernels_bench [PRESET [SEQUENCES [LENGTH]]]     (qwen2.5-1.5b 8 2048)
//
// Times are the shortest of a few passes by the host's clock, each of many calls; those of products
// are means under load, whose power bounds the clock. GB/s count each operand once, beside a copy
// within device memory; TFLOP/s stand beside a product of 8192 by 8192 by 8192. Products are timed
// with the library's first choice and with the one a search finds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "device/cuda_support.h"
#include "ebb/error.h"
#include "engine/workload.h"
#include "kernels/backend.h"
#include "model/parameters.h"

namespace {

using namespace ebb;
using namespace ebb::kernels;

constexpr DType kType = DType::bf16;
constexpr Bytes kArena = 12 * kGiB;

class Bench {
 public:
  Bench(const model::Config& config, model::Shape shape)
      : config_(config),
        decoder_(config, kType, kType, shape),
        device_(device::create_device("cuda")),
        backend_(create_backend(*device_, pool_)),
        stream_(device_->create_stream(device::StreamKind::compute, "bench")),
        memory_(device_->allocate_device(kArena)),
        scratch_(device_->allocate_device(2 * kGiB)),
        ops_(backend_.model->ops(
            {stream_.get(), {scratch_->data(), static_cast<std::size_t>(scratch_->bytes())}})),
        optimizer_(backend_.device_optimizer->ops({.stream = stream_.get()})) {
    fill_memory();
  }

  void run() {
    fmt::print("{}: {} tokens, hidden {}, intermediate {}, vocabulary {}, {} layers\n",
               device_->name(), tokens(), config_.hidden, config_.intermediate, config_.vocabulary,
               config_.layers);
    ceilings();
    block_ops();
    head_ops();
    optimizer_ops();
    block_products();
    head_products();
  }

 private:
  using Work = std::function<void()>;
  ModelOps& ops() { return ops_; }
  std::int64_t tokens() const { return decoder_.shape().tokens(); }

  // Normal numbers everywhere: zeros run faster than data does.
  void fill_memory() {
    std::vector<bf16> some(std::size_t{8} << 20);
    const CounterRng rng(1, 1);
    for (std::size_t i = 0; i < some.size(); ++i) {
      some[i] = to_bf16(static_cast<float>(rng.uniform(i) * 2 - 1));
    }
    auto filled = static_cast<Bytes>(some.size() * 2);
    stream_->copy_now(memory_->data(), some.data(), filled);
    while (filled < kArena) {
      const Bytes part = std::min(filled, kArena - filled);
      once([&] { stream_->copy(memory_->data() + filled, memory_->data(), part); });
      filled += part;
    }
  }

  void once(const Work& work) {
    stream_->submit(work);
    stream_->synchronize();
  }

  // Of one of so many calls.
  double pass(const Work& work, int calls) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    stream_->submit([&] {
      for (int i = 0; i < calls; ++i) work();
    });
    stream_->synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / calls;
  }
  double seconds(const Work& work) {
    pass(work, 1);
    const int calls = std::clamp(static_cast<int>(0.02 / pass(work, 2)), 2, 400);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) best = std::min(best, pass(work, calls));
    return best;
  }
  double seconds_under_load(const Work& work) {
    pass(work, 1);
    const int calls = std::clamp(static_cast<int>(0.04 / pass(work, 2)), 2, 10000);
    pass(work, calls);
    return pass(work, 2 * calls);
  }

  // Memory from the start of the arena on, for one measurement.
  void restart() { used_ = 0; }
  std::byte* take(Bytes bytes) {
    std::byte* const at = memory_->data() + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > kArena) throw Error("the bench's memory is too small for these shapes");
    return at;
  }
  View matrix(std::int64_t rows, std::int64_t cols, DType type = kType) {
    return {take(rows * cols * size_of(type)), type, rows, cols, cols};
  }

  void row(const std::string& name, double seconds, double bytes) {
    fmt::print("  {:<44}{:>10.1f} us{:>9.0f} GB/s{:>7.0f}%\n", name, seconds * 1e6,
               bytes * 1e-9 / seconds, 100 * bytes / seconds / copy_rate_);
  }

  void ceilings() {
    restart();
    const Bytes bytes = 2 * kGiB;
    std::byte *to = take(bytes), *from = take(bytes);
    const double copied = seconds([&] { stream_->copy(to, from, bytes); });
    copy_rate_ = 2.0 * static_cast<double>(bytes) / copied;
    const View c = matrix(8192, 8192), a = matrix(8192, 8192), b = matrix(8192, 8192);
    const double product =
        seconds_under_load([&] { ops().matmul(c, a, b, {.transpose_b = true}); });
    product_rate_ = 2.0 * 8192 * 8192 * 8192 / product;
    fmt::print("ceilings: copy {:.0f} GB/s, product {:.0f} TFLOP/s\n", copy_rate_ * 1e-9,
               product_rate_ * 1e-12);
  }

  void block_ops() {
    const std::int64_t t = tokens(), h = config_.hidden, f = config_.intermediate;
    const auto wide = static_cast<double>(t * f * 2), narrow = static_cast<double>(t * h * 2);
    fmt::print("block\n");
    restart();
    const View up = matrix(t, config_.up_width()), product = matrix(t, f);
    const double sides = config_.gated ? 2 : 1;
    const Activation act = config_.activation;
    const double forward = seconds([&] { ops().activate(product, up, act); });
    row("activate", forward, (sides + 1) * wide);
    const double backward = seconds([&] { ops().activate_backward(up, {}, product, up, act); });
    row("activate_backward", backward, (2 * sides + 1) * wide);
    row("  both, one after the other", forward + backward, (2 * sides + 2) * wide);
    row("activate_backward with h, in place",
        seconds([&] { ops().activate_backward(up, product, product, up, act); }),
        (2 * sides + 2) * wide);
    restart();
    const View x = matrix(t, h), y = matrix(t, h), dx = matrix(t, h);
    const LayerNorm norm{.kind = config_.norm};
    auto* const stats = reinterpret_cast<float*>(take(norm.stats(t) * 4));
    std::byte *weight = take(h * 2), *dweight = take(h * 2);
    row("norm", seconds([&] { ops().norm(y, stats, false, x, weight, nullptr, norm); }),
        2 * narrow);
    row("norm, stats given", seconds([&] { ops().norm(y, stats, true, x, weight, nullptr, norm); }),
        2 * narrow);
    const NormGradients to{.dx = dx, .dweight = dweight, .type = kType};
    row("norm_backward", seconds([&] { ops().norm_backward(to, y, x, stats, weight, norm); }),
        4 * narrow);
    attention_ops();
  }

  void attention_ops() {
    const std::int64_t t = tokens(), q = config_.query_width(), kv = config_.kv_width();
    const std::int64_t length = decoder_.shape().sequence;
    restart();
    const auto columns = [](View v, std::int64_t first, std::int64_t count) {
      v.data = static_cast<std::byte*>(v.data) + first * 2;
      v.cols = count;
      return v;
    };
    const View qkv = matrix(t, config_.qkv_width()), dqkv = matrix(t, config_.qkv_width());
    const View out = matrix(t, q), dout = matrix(t, q);
    auto* const table = reinterpret_cast<float*>(take(decoder_.table_bytes(length)));
    auto* const log_sums = reinterpret_cast<float*>(take(t * config_.heads * 4));
    std::byte* const bias = take(config_.qkv_width() * 2);
    const std::int64_t heads = config_.heads + config_.kv_heads;
    const View turned = columns(qkv, 0, q + kv);
    row("rope", seconds([&] {
          ops().rope(turned, table,
                     {.heads = heads, .head_dim = config_.head_dim, .start = 0, .length = length});
        }),
        2.0 * static_cast<double>(t * (q + kv) * 2));
    row("column_sums of q, k and v", seconds([&] { ops().column_sums(bias, kType, qkv); }),
        static_cast<double>(t * config_.qkv_width() * 2));
    const AttentionShape shape{.batch = decoder_.shape().rows,
                               .queries = length,
                               .keys = length,
                               .heads = config_.heads,
                               .kv_heads = config_.kv_heads,
                               .head_dim = config_.head_dim,
                               .scale = 0.1f};
    const double flops = 2.0 * static_cast<double>(t * length * q);  // forward, the causal half
    const double forward = seconds([&] {
      ops().attention(out, log_sums, columns(qkv, 0, q), columns(qkv, q, kv),
                      columns(qkv, q + kv, kv), shape);
    });
    const double backward = seconds([&] {
      ops().attention_backward(columns(dqkv, 0, q), columns(dqkv, q, kv), columns(dqkv, q + kv, kv),
                               dout, columns(qkv, 0, q), columns(qkv, q, kv),
                               columns(qkv, q + kv, kv), out, log_sums, shape);
    });
    for (const auto& [name, time, share] :
         {std::tuple{"attention", forward, 1.0}, {"attention_backward", backward, 2.5}}) {
      fmt::print("  {:<44}{:>10.1f} us{:>9.0f} TFLOP/s\n", name, time * 1e6,
                 share * flops / time * 1e-12);
    }
  }

  void head_ops() {
    fmt::print("head\n");
    restart();
    const std::int64_t rows = decoder_.logits_slice(), v = config_.vocabulary;
    const model::VocabularyPieces& pieces = decoder_.pieces();
    const auto in_pieces = [&](DType type) {
      const View all = matrix(rows * pieces.count, pieces.rows, type);
      View first = all;
      first.rows = rows;
      return Pieces{first, v, rows * pieces.rows};
    };
    const Pieces made = in_pieces(DType::f32), dlogits = in_pieces(DType::bf16);
    const ConstPieces logits{made.first, made.cols, made.distance};
    auto* const losses = reinterpret_cast<float*>(take(rows * 4));
    std::vector<std::int32_t> targets(static_cast<std::size_t>(rows), 7);
    auto* const on_device = reinterpret_cast<std::int32_t*>(take(rows * 4));
    stream_->copy_now(on_device, targets.data(), rows * 4);
    const double time = seconds([&] {
      ops().cross_entropy(dlogits, losses, logits, {on_device, targets.size()}, 1e-4f);
    });
    row(fmt::format("cross_entropy, {} tokens", rows), time, static_cast<double>(rows * v * 6));
  }

  // The gradients of one block, of two micro-batches.
  void optimizer_ops() {
    fmt::print("optimizer, one block's parameters\n");
    restart();
    OptimizerOps& optimizer = optimizer_;
    const model::Parameters all = model::parameters_of(config_);
    const model::ParameterBlock& block = all.blocks.at(1);
    const auto count = static_cast<double>(block.length);
    std::byte *gradient = take(block.length * 2), *sum = take(block.length * 2);
    std::byte *weight = take(block.length * 2), *low = take(block.length * 2);
    std::byte *first = take(block.length * 4), *second = take(block.length * 4);
    auto* const partials = reinterpret_cast<double*>(take(8 * (norm_blocks(block.length) + 64)));
    std::vector<GradientPart> parts;
    std::int64_t square = 0;
    for (const int p : block.parameters) {
      const model::Parameter& parameter = all.all[static_cast<std::size_t>(p)];
      parts.push_back({gradient + parameter.first * 2, sum + parameter.first * 2, partials + square,
                       parameter.count()});
      square += norm_blocks(parameter.count());
    }
    row("sums added, then squares, tensor by tensor", seconds([&] {
          for (const GradientPart& part : parts) {
            optimizer.finish_gradient(part.gradient, kType, part.sum, kType, part.count);
            optimizer.square_sums(part.partials, part.gradient, kType, part.count);
          }
        }),
        6 * count);
    row("both in one pass", seconds([&] { optimizer.finish_parts(parts, kType, kType); }),
        6 * count);
    StepScale none{1.0f, 1};
    auto* const scale = reinterpret_cast<StepScale*>(take(sizeof none));
    stream_->copy_now(scale, &none, sizeof none);
    std::vector<SpanUpdate> updates;
    for (const int p : block.parameters) {
      const model::Parameter& parameter = all.all[static_cast<std::size_t>(p)];
      const std::int64_t at = parameter.first;
      StateSpan span;
      span.weight = weight + at * 2;
      span.low = reinterpret_cast<std::int16_t*>(low + at * 2);
      span.first = first + at * 4;
      span.second = second + at * 4;
      span.gradient = gradient + at * 2;
      span.count = parameter.count();
      updates.push_back({span, AdamWStep{}});
    }
    row("adamw, tensor by tensor", seconds([&] {
          for (const auto& [span, step] : updates) optimizer.update(span, step, scale);
        }),
        26 * count);
    row(fmt::format("adamw, {} tensors at once", updates.size()),
        seconds([&] { optimizer.update_spans(updates, scale); }), 26 * count);
    const std::vector<std::vector<SpanUpdate>> chunks = cut(updates, std::int64_t{4} << 20);
    row(fmt::format("adamw, {} chunks of 4 Mi", chunks.size()), seconds([&] {
          for (const auto& chunk : chunks) optimizer.update_spans(chunk, scale);
        }),
        26 * count);
  }

  // The same updates in runs of `most` parameters.
  static std::vector<std::vector<SpanUpdate>> cut(const std::vector<SpanUpdate>& updates,
                                                  std::int64_t most) {
    std::vector<std::vector<SpanUpdate>> runs(1);
    std::int64_t room = most;
    for (const auto& [span, step] : updates) {
      for (std::int64_t start = 0; start < span.count;) {
        if (room == 0) runs.emplace_back(), room = most;
        const std::int64_t count = std::min(room, span.count - start);
        runs.back().push_back({part_of(span, start, count), step});
        start += count, room -= count;
      }
    }
    return runs;
  }

  // With the library's first choice, then with the one a search finds.
  void product_row(const std::string& name, const Product& product) {
    restart();
    Product placed = product;
    const auto place = [&](auto& view) {
      view.data = take(((view.rows - 1) * view.stride + view.cols) * size_of(view.type));
    };
    place(placed.a), place(placed.b), place(placed.c);
    if (product.options.bias != nullptr) placed.options.bias = take(product.c.cols * 4);
    if (product.options.addend != nullptr) placed.options.addend = placed.c.data;
    const auto work = [&] { ops().matmul(placed.c, placed.a, placed.b, placed.options); };
    const double before = seconds_under_load(work);
    GemmTuner* const search = backend_.model->product_search();
    if (search != nullptr && search->search_bytes(placed) <= kArena) {
      search->search(placed, {stream_.get(), {memory_->data(), static_cast<std::size_t>(kArena)}});
    }
    const double after = seconds_under_load(work);
    const std::int64_t k = product.options.transpose_a ? product.a.rows : product.a.cols;
    const double flops = 2.0 * static_cast<double>(product.c.rows * product.c.cols * k);
    fmt::print("  {:<44}{:>10.1f} us{:>9.0f} TFLOP/s -> {:.1f} us {:.0f} TFLOP/s, {:.0f}%\n", name,
               before * 1e6, flops / before * 1e-12, after * 1e6, flops / after * 1e-12,
               100 * flops / after / product_rate_);
    first_total_ += before, chosen_total_ += after;
  }

  static std::string name_of(const Product& p) {
    return fmt::format("{}x{}x{}{}{}{}{}{}", p.c.rows, p.c.cols,
                       p.options.transpose_a ? p.a.rows : p.a.cols,
                       p.options.transpose_a ? " aT" : "", p.options.transpose_b ? " bT" : "",
                       p.options.bias ? " bias" : "", p.options.addend ? " added" : "",
                       p.c.type == DType::f32 ? " fp32" : "");
  }

  void block_products() {
    fmt::print("products of a block: rows x columns x depth, first choice -> by timing\n");
    std::map<std::string, bool> seen;
    for (const Product& product : engine::training_products(decoder_, *backend_.model)) {
      const std::int64_t v = config_.vocabulary;
      const bool of_head = product.c.cols == v || product.c.rows == v || product.a.cols == v;
      if (of_head || seen[name_of(product)]) continue;
      seen[name_of(product)] = true;
      product_row(name_of(product), product);
    }
    const double calls = static_cast<double>(config_.layers) * 1e3;
    fmt::print("  all, of a micro-batch: {:.1f} ms -> {:.1f} ms\n", first_total_ * calls,
               chosen_total_ * calls);
  }

  void head_products() {
    fmt::print("products of the head, by tokens in a slice\n");
    const std::int64_t v = config_.vocabulary, h = config_.hidden;
    for (const std::int64_t s : {512, 1024, 2048, 4096}) {
      restart();
      const View normed = matrix(s, h), words = matrix(v, h), dlogits = matrix(s, v);
      const View sum = matrix(v, h, DType::f32), dnormed = matrix(s, h);
      const View logits = matrix(s, v, DType::f32);
      product_row(fmt::format("{}: logits, fp32", s),
                  {logits, normed, words, {.transpose_b = true}});
      product_row(fmt::format("{}: logits, bf16", s),
                  {dlogits, normed, words, {.transpose_b = true}});
      product_row(fmt::format("{}: table's gradient, added", s),
                  {sum, dlogits, normed, {.transpose_a = true, .addend = sum.data}});
      product_row(fmt::format("{}: input's gradient", s), {dnormed, dlogits, words, {}});
    }
  }

  ThreadPool pool_{1};
  model::Config config_;
  model::Decoder decoder_;
  std::unique_ptr<device::Device> device_;
  Backend backend_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Buffer> memory_, scratch_;
  Bound<ModelOps> ops_;
  Bound<OptimizerOps> optimizer_;
  Bytes used_ = 0;
  double copy_rate_ = 0, product_rate_ = 0;
  double first_total_ = 0, chosen_total_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (!device::cuda_available()) {
    fmt::print("gpu_kernels_bench: no NVIDIA GPU here\n");
    return 0;
  }
  const auto number = [&](int at, std::int64_t otherwise) {
    return argc > at ? std::strtoll(argv[at], nullptr, 10) : otherwise;
  };
  try {
    const model::Config config = model::preset(argc > 1 ? argv[1] : "qwen2.5-1.5b");
    Bench(config, {.rows = number(2, 8), .sequence = number(3, 2048)}).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_kernels_bench: {}\n", error.what());
    return 1;
  }
}
