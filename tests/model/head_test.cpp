// The head and the embedding of a long vocabulary: whole, and a piece of it at a time, the same
// bits. A promise: where memory is scarce a plan takes the second way.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/counting_ops.h"
#include "kernels/cpu/cpu_model_library.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/optimizer_ops.h"
#include "model/decoder.h"

namespace ebb::model {
namespace {

using Memory = std::vector<std::byte>;

Config long_config(std::int64_t vocabulary, bool tied, bool learned) {
  Config config{.family = learned ? "gpt2" : "qwen2",
                .hidden = 32,
                .layers = 1,
                .heads = 4,
                .kv_heads = 4,
                .head_dim = 8,
                .intermediate = 64,
                .vocabulary = vocabulary,
                .max_positions = 64,
                .rope_theta = 10000,
                .norm_epsilon = 1e-5,
                .tied = tied};
  if (learned) {
    config.norm = Config::NormKind::layer;
    config.positions = Config::Positions::learned;
  }
  return config;
}

// Memory that nobody has written says so.
Memory poisoned(Bytes bytes) { return Memory(static_cast<std::size_t>(bytes), std::byte{0xff}); }

Memory values(DType type, std::int64_t count, double deviation, std::uint64_t stream,
              double mean = 0) {
  const CounterRng rng(5, stream);
  Memory memory(static_cast<std::size_t>(count * size_of(type)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value =
        static_cast<float>(mean + deviation * rng.normal(static_cast<std::uint64_t>(i)));
    const bf16 narrow = to_bf16(value);
    std::byte* to = memory.data() + i * size_of(type);
    type == DType::f32 ? std::memcpy(to, &value, 4) : std::memcpy(to, &narrow, 2);
  }
  return memory;
}

struct Results {
  double loss = -1, loss_alone = -1;
  Memory residual, head_gradient, output, embedding_gradient;
};

class Model {
 public:
  Model(const Config& config, DType type, Shape shape)
      : config_(config),
        decoder_(config, type, type, shape),
        type_(type),
        parameters_(parameters_of(config)) {
    embedding_ = values(type, parameters_.blocks.front().length, 0.1, 1);
    head_ = values(type, parameters_.blocks.back().length, 0.1, 2, 0.3);
    input_ = values(type, shape.tokens() * config.hidden, 1.0, 3);
    const CounterRng rng(5, 4);
    for (std::int64_t i = 0; i < shape.tokens(); ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      const auto bound = static_cast<std::uint64_t>(config.vocabulary);
      ids_.push_back(static_cast<std::int32_t>(rng.below(2 * at, bound)));
      targets_.push_back(i % 11 == 3 ? -1
                                     : static_cast<std::int32_t>(rng.below(2 * at + 1, bound)));
    }
    ids_.front() = 0, ids_.back() = static_cast<std::int32_t>(config.vocabulary - 1);
  }

  const Decoder& decoder() const { return decoder_; }
  const Parameters& parameters() const { return parameters_; }

  Results whole(kernels::ModelOps& ops) const {
    Results run = empty();
    Memory sum = poisoned(decoder_.tied_sum_bytes());
    decoder_.embed(ops, embedding_.data(), ids_, span(), run.output.data());
    with_work([&](Carver& work) {
      decoder_.head(ops,
                    {.weights = head_.data(),
                     .embedding = embedding_.data(),
                     .gradient = run.head_gradient.data(),
                     .tied_sum = sum.data(),
                     .loss = &run.loss,
                     .scale = 0.25f},
                    input_.data(), targets_, run.residual.data(), work);
    });
    with_work([&](Carver& work) {
      decoder_.loss(ops, head_.data(), embedding_.data(), input_.data(), targets_, &run.loss_alone,
                    work);
    });
    with_work([&](Carver& work) {
      decoder_.embed_backward(ops, ids_, run.residual.data(), sum.data(),
                              run.embedding_gradient.data(), work);
    });
    return run;
  }

  // Every piece in memory of its own, as where it is fetched.
  Results cut(kernels::ModelOps& ops) const {
    Results run = empty();
    const int pieces = decoder_.pieces().count;
    const Bytes element = size_of(type_), row = config_.hidden * element;
    const auto piece_of = [&](const Memory& table, int p) {
      const auto* first = table.data() + decoder_.pieces().first(p) * row;
      return Memory(first, first + decoder_.piece_rows(p) * row);
    };
    const auto put = [&](Memory& whole, Bytes at, const Memory& piece) {
      std::copy(piece.begin(), piece.end(), whole.begin() + at);
    };
    const std::int64_t positions = positions_place(config_);
    const bool learned = config_.positions == Config::Positions::learned;
    for (int p = 0; p < pieces; ++p) {
      decoder_.embed_piece(ops, p, piece_of(embedding_, p).data(), ids_, run.output.data());
    }
    if (learned) {
      decoder_.embed_positions(ops, embedding_.data() + positions * element, span(),
                               run.output.data());
    }
    const Memory& table = config_.tied ? embedding_ : head_;
    const Memory norm(head_.begin() + head_norm_place(config_).weight * element, head_.end());
    Memory state = poisoned(kMost), dnormed = poisoned(decoder_.dnormed_bytes());
    const auto with_state = [&](auto use) {
      Carver carver(state.data(), kMost);
      use(carver);
    };
    with_state([&](Carver& keeps) { decoder_.head_begin(ops, norm.data(), input_.data(), keeps); });
    for (int p = 0; p < pieces; ++p) {
      with_work([&](Carver& work) {
        with_state([&](Carver& keeps) {
          decoder_.head_statistics(ops, p, piece_of(table, p).data(), targets_, keeps, work);
        });
      });
    }
    with_state([&](Carver& keeps) { decoder_.head_loss(ops, targets_, &run.loss_alone, keeps); });
    std::vector<Memory> sums;
    for (int p = 0; p < pieces; ++p) {
      const Memory words = piece_of(table, p);
      Memory gradient = poisoned(decoder_.piece_rows(p) * row);
      sums.push_back(poisoned(decoder_.piece_rows(p) * config_.hidden * 4));
      with_work([&](Carver& work) {
        with_state([&](Carver& keeps) {
          decoder_.head_gradients(ops, p,
                                  {.table = words.data(),
                                   .gradient = gradient.data(),
                                   .tied_sum = sums.back().data(),
                                   .dnormed = dnormed.data(),
                                   .scale = 0.25f},
                                  targets_, keeps, work);
        });
      });
      if (!config_.tied) put(run.head_gradient, decoder_.pieces().first(p) * row, gradient);
    }
    Memory norm_gradient = poisoned(static_cast<Bytes>(norm.size()));
    with_state([&](Carver& keeps) { decoder_.head_loss(ops, targets_, &run.loss, keeps); });
    with_state([&](Carver& keeps) {
      decoder_.head_end(ops,
                        {.norm = norm.data(),
                         .norm_gradient = norm_gradient.data(),
                         .input = input_.data(),
                         .dnormed = dnormed.data(),
                         .residual = run.residual.data()},
                        keeps);
    });
    put(run.head_gradient, head_norm_place(config_).weight * element, norm_gradient);
    for (int p = 0; p < pieces; ++p) {
      Memory gradient = poisoned(decoder_.piece_rows(p) * row);
      with_work([&](Carver& work) {
        decoder_.embed_piece_backward(ops, p, ids_, run.residual.data(),
                                      sums[static_cast<std::size_t>(p)].data(), gradient.data(),
                                      work);
      });
      put(run.embedding_gradient, decoder_.pieces().first(p) * row, gradient);
    }
    if (learned) {
      decoder_.positions_backward(ops, run.residual.data(),
                                  run.embedding_gradient.data() + positions * element);
    }
    return run;
  }

 private:
  static constexpr Bytes kMost = 600 * kMiB;

  TokenRange span() const { return {.start = 0, .length = decoder_.shape().sequence}; }
  Results empty() const {
    const Bytes element = size_of(type_);
    Results run;
    run.residual = poisoned(decoder_.input_bytes());
    run.output = poisoned(decoder_.input_bytes());
    run.head_gradient = poisoned(parameters_.blocks.back().length * element);
    run.embedding_gradient = poisoned(parameters_.blocks.front().length * element);
    return run;
  }
  template <class Use>
  void with_work(Use use) const {
    if (work_.empty()) work_ = poisoned(kMost);
    Carver carver(work_.data(), kMost);
    use(carver);
  }

  Config config_;
  Decoder decoder_;
  DType type_;
  Parameters parameters_;
  Memory embedding_, head_, input_;
  std::vector<std::int32_t> ids_, targets_;
  mutable Memory work_;
};

// Scratch for any product of these sizes.
class Ops {
 public:
  kernels::ModelOps& operator*() { return ops_; }

 private:
  ThreadPool pool_{2};
  kernels::CpuModelLibrary library_{pool_};
  std::vector<std::byte> scratch_{std::vector<std::byte>(std::size_t{64} << 20)};
  kernels::CpuOps ops_{library_, scratch_};
};

TEST(HeadPieces, GiveTheBitsOfTheWholeHead) {
  Ops ops;
  struct Case {
    std::int64_t vocabulary, rows, sequence;
    bool tied, learned;
    DType type;
  };
  // The last has several slices of tokens, and these of logits.
  for (const Case& c :
       {Case{32768, 3, 20, true, false, DType::bf16}, Case{32769, 3, 20, false, false, DType::bf16},
        Case{50257, 2, 33, true, true, DType::bf16}, Case{33001, 1, 40, true, false, DType::f32},
        Case{33001, 5, 13, false, true, DType::f32},
        Case{32800, 70, 32, true, false, DType::bf16}}) {
    const Model model(long_config(c.vocabulary, c.tied, c.learned), c.type,
                      {.rows = c.rows, .sequence = c.sequence});
    const std::string what = fmt::format("{} {} {}{}", c.vocabulary, name_of(c.type),
                                         c.tied ? "tied" : "untied", c.learned ? " learned" : "");
    ASSERT_GT(model.decoder().pieces().count, 1) << what;
    const Results whole = model.whole(*ops), cut = model.cut(*ops);
    EXPECT_GT(whole.loss, 0) << what;
    EXPECT_EQ(whole.loss, whole.loss_alone) << what;
    EXPECT_EQ(whole.loss, cut.loss) << what;
    EXPECT_EQ(whole.loss, cut.loss_alone) << what;
    EXPECT_TRUE(whole.residual == cut.residual) << what << " residual";
    EXPECT_TRUE(whole.head_gradient == cut.head_gradient) << what << " head's gradient";
    EXPECT_TRUE(whole.output == cut.output) << what << " embedded tokens";
    EXPECT_TRUE(whole.embedding_gradient == cut.embedding_gradient) << what << " embedding's";
  }
}

// Fixed by the numerics: other numbers here are other bits.
TEST(VocabularyPieces, AreAGridOfTheShape) {
  const auto pieces = [](std::int64_t vocabulary, std::int64_t hidden) {
    Config config = long_config(vocabulary, true, false);
    config.hidden = hidden;
    const VocabularyPieces made = vocabulary_pieces(config);
    return std::pair(made.rows, made.count);
  };
  using Pair = std::pair<std::int64_t, int>;
  EXPECT_EQ(pieces(32767, 896), Pair(32767, 1));
  EXPECT_EQ(pieces(32768, 896), Pair(4096, 8));
  EXPECT_EQ(pieces(50257, 768), Pair(6336, 8));
  EXPECT_EQ(pieces(151936, 896), Pair(19008, 8));
  EXPECT_EQ(pieces(256000, 2048), Pair(32000, 8));
  EXPECT_EQ(pieces(33000, 7), Pair(8192, 5));
}

TEST(VocabularyPieces, BeginWhereChunksMayAndCoverAll) {
  for (const std::int64_t hidden : {1, 7, 32, 48, 896, 1600, 3584}) {
    for (std::int64_t vocabulary = 32768; vocabulary < 300'000; vocabulary += 4091) {
      Config config = long_config(vocabulary, true, false);
      config.hidden = hidden;
      const VocabularyPieces pieces = vocabulary_pieces(config);
      ASSERT_EQ(pieces.rows * hidden % kernels::kNormBlock, 0) << vocabulary << " x " << hidden;
      ASSERT_LE(pieces.count, kernels::kMostPieces) << vocabulary << " x " << hidden;
      ASSERT_LT(pieces.first(pieces.count - 1), vocabulary) << vocabulary << " x " << hidden;
      ASSERT_GE(pieces.first(pieces.count), vocabulary) << vocabulary << " x " << hidden;
    }
  }
}

}  // namespace
}  // namespace ebb::model
