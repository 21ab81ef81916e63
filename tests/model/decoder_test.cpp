// Forward and backward of whole models on the reference ops.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include <fmt/format.h>

#include "model/small_model.h"

namespace ebb::model {
namespace {

Config small(bool bias, bool tied) {
  return {.family = bias ? "qwen2" : "llama",
          .hidden = 16,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 4,
          .intermediate = 24,
          .vocabulary = 20,
          .max_positions = 32,
          .norm_epsilon = 1e-5,
          .qkv_bias = bias,
          .tied = tied};
}

// Widths between which there is padding: no two matrices are one.
Config odd(bool bias, bool tied) {
  Config config = small(bias, tied);
  config.hidden = 10;
  config.heads = 3;
  config.kv_heads = 1;
  config.head_dim = 6;
  config.intermediate = 7;
  config.vocabulary = 13;
  return config;
}

// As the families have it, one feature a family at least.
std::vector<Config> families() {
  Config llama = small(true, false);
  llama.family = "llama";
  llama.o_bias = llama.mlp_bias = true;
  llama.rope_scaling = {
      .kind = RopeScaling::Kind::llama3, .factor = 4, .low = 1, .high = 3, .original = 20};
  Config mistral = small(false, false);
  mistral.family = "mistral";
  mistral.windows = {3, 3};
  Config mixed = small(true, true);
  mixed.windows = {0, 2};
  Config qwen3 = odd(false, true);
  qwen3.family = "qwen3";
  qwen3.qk_norm = true;
  Config gemma = small(false, true);
  gemma.family = "gemma";
  gemma.norm_offset = 1.0;
  gemma.activation = Config::Activation::gelu_tanh;
  gemma.scaled_embeddings = true;
  Config gpt2 = odd(true, true);
  gpt2.family = "gpt2";
  gpt2.hidden = 18, gpt2.kv_heads = 3;
  gpt2.positions = Config::Positions::learned;
  gpt2.norm = Config::NormKind::layer;
  gpt2.activation = Config::Activation::gelu;
  gpt2.gated = false;
  gpt2.o_bias = gpt2.mlp_bias = true;
  gpt2.weights_in_by_out = true;
  return {llama, mistral, mixed, qwen3, gemma, gpt2};
}

std::vector<Config> configs() {
  std::vector<Config> all = families();
  for (const Config& plain :
       {small(false, false), small(true, true), odd(false, true), odd(true, false)}) {
    all.push_back(plain);
  }
  return all;
}

std::string name(const Config& config) {
  return fmt::format("{} hidden {} {}{}", config.family, config.hidden,
                     config.tied ? "tied" : "untied", config.windows.empty() ? "" : " windows");
}

void expect_near(const Floats& found, const Floats& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << ", element " << i;
  }
}

// Ten tokens: the MLP in one tile, or in tiles of three and what is left.
constexpr Shape kOneTile{.rows = 2, .sequence = 5};
constexpr Shape kTiles{.rows = 2, .sequence = 5, .largest_tile = 3};

std::vector<std::pair<Config, Shape>> cases() {
  std::vector<std::pair<Config, Shape>> all;
  for (const Config& config : configs()) {
    for (const Shape& shape : {kOneTile, kTiles}) all.emplace_back(config, shape);
  }
  return all;
}

// Along each parameter alone: part random, part downhill, so that no slope is close to zero.
TEST(Decoder, GradientOfTheWholeModelAgreesWithFiniteDifferences) {
  for (const auto& [config, shape] : cases()) {
    SmallModel model(config, shape);
    model.step();
    const std::vector<Floats> gradients = model.gradients;
    for (std::size_t p = 0; p < model.parameters.all.size(); ++p) {
      const Parameter& parameter = model.parameters.all[p];
      const auto block = static_cast<std::size_t>(parameter.block);
      const auto first = static_cast<std::size_t>(parameter.first);
      const auto count = static_cast<std::size_t>(parameter.count());
      Floats& weights = model.weights[block];
      const Floats cheap_saved = weights;
      double steepness = 0;
      for (std::size_t i = 0; i < count; ++i) {
        steepness += std::pow(gradients[block][first + i], 2);
      }
      steepness = std::sqrt(steepness);
      // A key's bias shifts all scores of a query alike: its slope is zero but for the rotation.
      if (steepness < 1e-3) continue;
      const CounterRng rng(17, p);
      std::vector<double> direction(count);
      double slope = 0;
      for (std::size_t i = 0; i < count; ++i) {
        direction[i] = gradients[block][first + i] / steepness +
                       rng.normal(i) / std::sqrt(static_cast<double>(count));
        slope += direction[i] * gradients[block][first + i];
      }
      const auto loss_at = [&](double h) {
        for (std::size_t i = 0; i < count; ++i) {
          weights[first + i] = static_cast<float>(cheap_saved[first + i] + h * direction[i]);
        }
        const double loss = model.step();
        weights = cheap_saved;
        return loss;
      };
      const double h = 4e-3;
      const double found =
          (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      // Losses of some 40 in fp32 are known to about 1e-5, and so slopes to about 2e-3.
      EXPECT_NEAR(found, slope, 4e-3 + 4e-3 * std::abs(slope))
          << name(config) << ": " << parameter.name << ", tiles of " << model.decoder.mlp_tile();
    }
  }
}

TEST(Decoder, TilesOfTheMlpAreEven) {
  const auto tile = [](std::int64_t tokens) {
    return Decoder(small(false, false), DType::bf16, DType::bf16, {.rows = 1, .sequence = tokens})
        .mlp_tile();
  };
  for (const std::int64_t one : {1, 100, 16'384, 20'000, 32'768}) EXPECT_EQ(tile(one), one);
  EXPECT_EQ(tile(32'769), 11'008);  // three of 10,923, along tiles of products
  EXPECT_EQ(tile(40'000), 13'440);
  EXPECT_EQ(tile(65'536), 16'384);
  EXPECT_EQ(tile(131'072), 16'384);
  EXPECT_EQ(tile(131'200), 14'592);
  EXPECT_EQ(tile(262'144), 16'384);
  for (std::int64_t tokens = 32'769; tokens < 2'000'000; tokens = tokens * 17 / 16 + 7) {
    EXPECT_LE(tile(tokens), 16'384) << tokens;
    EXPECT_GT(tile(tokens), 8'192) << tokens;
    EXPECT_EQ(tile(tokens) % 128, 0) << tokens;
  }
  EXPECT_EQ(Decoder(small(false, false), DType::f32, DType::f32, kTiles).mlp_tile(), 3);
}

// Rows do not know each other but in attention, so that forward there is no difference; sums of
// weight gradients have other orders.
TEST(Decoder, TheMlpInTilesIsTheMlpInOne) {
  for (const Config& config : configs()) {
    SmallModel whole(config, kOneTile), tiles(config, kTiles);
    EXPECT_EQ(tiles.forward(), whole.forward()) << name(config);
    EXPECT_EQ(tiles.step(), whole.step()) << name(config);
    for (const Parameter& p : whole.parameters.all) {
      const auto part = [&](const SmallModel& model) {
        const auto begin = model.gradients[static_cast<std::size_t>(p.block)].begin() + p.first;
        return Floats(begin, begin + p.count());
      };
      expect_near(part(tiles), part(whole), 1e-5, name(config) + ": " + p.name);
    }
  }
}

// What a block saves is a matter of memory alone.
TEST(Decoder, GivesTheSameBitsWhateverABlockSaves) {
  for (const auto& [config, shape] : cases()) {
    SmallModel model(config, shape);
    const double loss = model.step();
    const std::vector<Floats> expected = model.gradients;
    for (const Saves saves : {Saves{.mlp = true}, Saves{.mlp = true, .cheap_saved = true}}) {
      for (Floats& gradient : model.gradients) std::fill(gradient.begin(), gradient.end(), 0.0f);
      EXPECT_EQ(model.step(1.0f, saves), loss) << name(config);
      EXPECT_EQ(model.gradients, expected)
          << name(config) << ", tiles of " << model.decoder.mlp_tile() << ", cheap_saved "
          << saves.cheap_saved;
    }
  }
}

TEST(Decoder, WritesGradientsWhole) {
  for (const auto& [config, shape] : cases()) {
    SmallModel model(config, shape);
    const double loss = model.step();
    const std::vector<Floats> expected = model.gradients;
    for (Floats& gradient : model.gradients) {
      std::fill(gradient.begin(), gradient.end(), std::nanf(""));
    }
    EXPECT_EQ(model.step(), loss);
    for (const Parameter& p : model.parameters.all) {
      for (std::int64_t i = 0; i < p.count(); ++i) {
        const auto at = static_cast<std::size_t>(p.first + i);
        const auto block = static_cast<std::size_t>(p.block);
        ASSERT_EQ(model.gradients[block][at], expected[block][at])
            << name(config) << ": " << p.name << " element " << i;
      }
    }
  }
}

TEST(Decoder, SavesTheSameBitsWhenItRecomputes) {
  for (const auto& [config, shape] : cases()) {
    SmallModel model(config, shape);
    const auto inputs = model.forward();
    for (std::size_t l = 0; l < model.layers(); ++l) {
      Workspace first, again, work;
      Floats output = model.activations();
      Carver first_memory = first.carver(), again_memory = again.carver();
      Carver first_work = work.carver(), again_work = work.carver();
      ForwardMemory memory{.weights = bytes_of(model.weights[l + 1]),
                           .tables = model.table.data(),
                           .input = bytes_of(inputs[l]),
                           .output = bytes_of(output),
                           .saved = &first_memory};
      const auto layer = static_cast<std::int64_t>(l);
      const TokenRange tokens = model.decoder.micro_batch();
      model.decoder.forward(model.ops, layer, tokens, memory, first_work);
      memory.output = nullptr;
      memory.saved = &again_memory;
      model.decoder.forward(model.ops, layer, tokens, memory, again_work);
      const auto a = first.used(first_memory), b = again.used(again_memory);
      ASSERT_EQ(a.size(), b.size());
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << name(config) << ", block " << l;
      EXPECT_LE(again_work.used(), first_work.used());
    }
  }
}

// Keys and values of every block, empty at first.
struct Caches {
  explicit Caches(const SmallModel& model) : rows(model.layers()) {
    const auto size = static_cast<std::size_t>(model.decoder.config().max_positions *
                                               model.decoder.cache_row_bytes() / 4);
    for (Floats& one : rows) one.assign(size, std::nanf(""));
  }
  std::vector<Floats> rows;
};

TEST(Decoder, DecodesWithTheCacheWhatTheForwardComputes) {
  for (const Config& config : configs()) {
    constexpr std::int64_t tokens = 8;
    SmallModel model(config, {.rows = 1, .sequence = tokens});
    const auto inputs = model.forward();
    const auto hidden = static_cast<std::size_t>(config.hidden);
    const auto logits_of = [&](const Floats& states, std::int64_t count) {
      Floats out(static_cast<std::size_t>(config.vocabulary));
      Workspace work;
      Carver carver = work.carver();
      const SequenceTokens all{.length = count};
      model.decoder.logits(model.ops, bytes_of(model.weights.back()),
                           bytes_of(model.weights.front()), bytes_of(states), {&all, 1}, out.data(),
                           carver);
      return out;
    };
    for (const std::int64_t slice : {std::int64_t{1}, std::int64_t{3}, tokens}) {
      Caches caches(model);
      for (std::int64_t at = 0; at < tokens; at += slice) {
        const std::int64_t count = std::min(slice, tokens - at);
        const auto size = static_cast<std::size_t>(count) * hidden;
        Floats input(size), output(size);
        model.decoder.embed(model.ops, bytes_of(model.weights[0]),
                            std::span(model.ids).subspan(static_cast<std::size_t>(at),
                                                         static_cast<std::size_t>(count)),
                            {.start = at, .length = count}, bytes_of(input));
        for (std::size_t l = 0; l < model.layers(); ++l) {
          Workspace work;
          Carver carver = work.carver();
          const KvCache cache{bytes_of(caches.rows[l])};
          model.decoder.forward(model.ops, static_cast<std::int64_t>(l),
                                {.start = at, .length = count},
                                {.weights = bytes_of(model.weights[l + 1]),
                                 .tables = model.table.data(),
                                 .input = bytes_of(input),
                                 .output = bytes_of(output),
                                 .cache = &cache},
                                carver);
          std::swap(input, output);
        }
        const auto what = fmt::format("{}, slices of {}, token {}", name(config), slice, at);
        const auto begin = inputs.back().begin() + at * config.hidden;
        expect_near(input, Floats(begin, begin + count * config.hidden), 2e-5, what);
        expect_near(logits_of(input, count), logits_of(inputs.back(), at + count), 5e-5,
                    what + ", logits");
      }
    }
  }
}

// Where the tokens begin their sequence, a cache and what is saved are memory and nothing else.
TEST(Decoder, GivesTheSameBitsWithACacheAndWithoutWhatIsSaved) {
  for (const Config& config : configs()) {
    SmallModel model(config, {.rows = 1, .sequence = 8});
    const auto inputs = model.forward();
    Caches caches(model);
    for (std::size_t l = 0; l < model.layers(); ++l) {
      for (const bool cached : {false, true}) {
        const KvCache cache{bytes_of(caches.rows[l])};
        Workspace work;
        Carver carver = work.carver();
        Floats output = model.activations();
        model.decoder.forward(model.ops, static_cast<std::int64_t>(l), model.decoder.micro_batch(),
                              {.weights = bytes_of(model.weights[l + 1]),
                               .tables = model.table.data(),
                               .input = bytes_of(inputs[l]),
                               .output = bytes_of(output),
                               .cache = cached ? &cache : nullptr},
                              carver);
        EXPECT_EQ(output, inputs[l + 1])
            << name(config) << ", block " << l << (cached ? ", cache" : "");
      }
    }
  }
}

// A block's halves with weights of their own each: the same parameters in another order.
TEST(Decoder, GivesTheSameBitsInHalves) {
  for (const Config& config : configs()) {
    SmallModel model(config, {.rows = 1, .sequence = 8});
    const auto inputs = model.forward();
    const Parameters halves = parameters_of(config, BlockCut::halves);
    std::map<std::string, const Parameter*> whole;
    const Parameters parameters = parameters_of(config);
    for (const Parameter& parameter : parameters.all) whole[parameter.name] = &parameter;
    const Decoder decoder(config, DType::f32, DType::f32, {}, BlockCut::halves);
    for (std::size_t l = 0; l < model.layers(); ++l) {
      std::vector<Floats> weights;
      for (const std::size_t b : {1 + 2 * l, 2 + 2 * l}) {
        weights.emplace_back(static_cast<std::size_t>(halves.blocks[b].length), std::nanf(""));
        for (const int p : halves.blocks[b].parameters) {
          const Parameter& parameter = halves.all[p];
          const Parameter& from = *whole.at(parameter.name);
          std::copy_n(model.weights[l + 1].begin() + from.first, from.count(),
                      weights.back().begin() + parameter.first);
        }
      }
      Caches caches(model);
      const KvCache cache{bytes_of(caches.rows[l])};
      Workspace work;
      Carver carver = work.carver();
      Floats middle = model.activations(), output = model.activations();
      const SequenceTokens tokens{.start = 0, .length = 8, .cache = cache};
      decoder.forward_attention(model.ops, static_cast<std::int64_t>(l), {&tokens, 1},
                                {.weights = bytes_of(weights[0]),
                                 .tables = model.table.data(),
                                 .input = bytes_of(inputs[l]),
                                 .output = bytes_of(middle)},
                                carver);
      decoder.forward_mlp(
          model.ops, {&tokens, 1},
          {.weights = bytes_of(weights[1]), .input = bytes_of(middle), .output = bytes_of(output)},
          carver);
      EXPECT_EQ(output, inputs[l + 1]) << name(config) << ", block " << l;
    }
  }
}

// One run of the head over some of the tokens.
struct HeadRun {
  double loss = 0;
  Floats residual, gradient, sum;
};

HeadRun run_head(SmallModel& model, const Decoder& decoder, const Floats& input,
                 std::int64_t first) {
  const Config& config = decoder.config();
  const std::int64_t tokens = decoder.shape().tokens();
  HeadRun run;
  run.residual.resize(static_cast<std::size_t>(tokens * config.hidden));
  run.gradient.assign(model.weights.back().size(), 0.0f);
  run.sum.assign(static_cast<std::size_t>(config.vocabulary * config.hidden), 0.0f);
  Workspace work(16 * kMiB);
  Carver carver = work.carver();
  decoder.head(model.ops,
               {.weights = bytes_of(model.weights.back()),
                .embedding = bytes_of(model.weights.front()),
                .gradient = bytes_of(run.gradient),
                .tied_sum = bytes_of(run.sum),
                .loss = &run.loss},
               bytes_of(input) + first * config.hidden * 4,
               std::span(model.targets)
                   .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(tokens)),
               bytes_of(run.residual), carver);
  return run;
}

// What is fixed by the numerics no plan can make smaller.
TEST(Decoder, SlicesOfTheHeadAreBounded) {
  Config config = small(false, true);
  config.vocabulary = 151'936;
  for (const std::int64_t rows : {1, 8, 32, 1024}) {
    const Decoder decoder(config, DType::bf16, DType::bf16, {.rows = rows, .sequence = 2048});
    EXPECT_LE(decoder.head_slice() * config.vocabulary * 2, 1280 * kMiB) << rows;
    EXPECT_LE(decoder.logits_slice() * config.vocabulary * 4, 640 * kMiB) << rows;
    EXPECT_GE(decoder.head_slice(), 2048) << rows;
  }
}

TEST(Decoder, HeadInSlicesIsTheHeadInOne) {
  for (const bool tied : {false, true}) {
    const Config config = small(false, tied);
    constexpr std::int64_t tokens = 2200, few = tokens / 5;
    SmallModel model(config, {.rows = tokens / 10, .sequence = 10});
    ASSERT_LT(model.decoder.head_slice(), tokens) << "the head must run in slices";
    ASSERT_LT(model.decoder.logits_slice(), model.decoder.head_slice()) << "of several slices";
    const Decoder part(config, DType::f32, DType::f32, {.rows = few / 10, .sequence = 10});
    ASSERT_EQ(part.logits_slice(), few) << "and these in one";
    Floats input = model.activations();
    const CounterRng rng(8, 8);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(rng.normal(i));
    const HeadRun sliced = run_head(model, model.decoder, input, 0);
    HeadRun whole = run_head(model, part, input, 0);
    for (std::int64_t first = few; first < tokens; first += few) {
      const HeadRun rest = run_head(model, part, input, first);
      whole.loss += rest.loss;
      whole.residual.insert(whole.residual.end(), rest.residual.begin(), rest.residual.end());
      for (std::size_t i = 0; i < whole.gradient.size(); ++i) whole.gradient[i] += rest.gradient[i];
      for (std::size_t i = 0; i < whole.sum.size(); ++i) whole.sum[i] += rest.sum[i];
    }
    const std::string what = tied ? "tied" : "untied";
    EXPECT_NEAR(sliced.loss, whole.loss, 1e-6 * sliced.loss) << what;
    expect_near(sliced.residual, whole.residual, 1e-6, what + " residual");
    expect_near(sliced.gradient, whole.gradient, 1e-4, what + " gradient");
    expect_near(sliced.sum, whole.sum, 1e-4, what + " tied sum");
  }
}

// With biases of a width that needs padding q, k and v are three matrices, without biases one.
TEST(Decoder, ComputesTheSameJoinedAndApart) {
  const Config joined = small(false, true);
  Config apart = joined;
  apart.family = "qwen2", apart.qkv_bias = true;
  ASSERT_EQ(block_places(joined).qkv.size(), 1u);
  ASSERT_EQ(block_places(apart).qkv.size(), 3u);
  const Shape shape{.rows = 2, .sequence = 5};
  SmallModel a(joined, shape), b(apart, shape);
  b.weights.front() = a.weights.front();
  b.weights.back() = a.weights.back();
  // The same values by name; biases are zero.
  const auto for_shared = [&](auto visit) {
    for (const Parameter& to : b.parameters.all) {
      const Parameter* from = nullptr;
      for (const Parameter& p : a.parameters.all) {
        if (p.name == to.name) from = &p;
      }
      visit(from, to);
    }
  };
  for_shared([&](const Parameter* from, const Parameter& to) {
    for (std::int64_t i = 0; i < to.count(); ++i) {
      const auto block = static_cast<std::size_t>(to.block);
      b.weights[block][static_cast<std::size_t>(to.first + i)] =
          from == nullptr ? 0.0f : a.weights[block][static_cast<std::size_t>(from->first + i)];
    }
  });
  EXPECT_NEAR(a.step(), b.step(), 1e-4);
  for_shared([&](const Parameter* from, const Parameter& to) {
    if (from == nullptr) return;
    for (std::int64_t i = 0; i < to.count(); ++i) {
      const auto block = static_cast<std::size_t>(to.block);
      const float x = a.gradients[block][static_cast<std::size_t>(from->first + i)];
      const float y = b.gradients[block][static_cast<std::size_t>(to.first + i)];
      ASSERT_NEAR(x, y, 1e-4 * (1 + std::abs(x))) << to.name << " element " << i;
    }
  });
}

// Memory is promised to grow for those families only that need more of it.
TEST(Decoder, KeepsNothingForFeaturesThatAreOff) {
  const auto saved_by = [](const Config& config) {
    SmallModel model(config, {.rows = 1, .sequence = 4});
    Workspace saved, work;
    Carver saved_memory = saved.carver(), work_memory = work.carver();
    const Floats input = model.activations();
    // Without the MLP, whose work lies in the same memory.
    model.decoder.forward(model.ops, 0, model.decoder.micro_batch(),
                          {.weights = bytes_of(model.weights[1]),
                           .tables = model.table.data(),
                           .input = bytes_of(input),
                           .saved = &saved_memory},
                          work_memory);
    return std::pair{saved_memory.used(), work_memory.used()};
  };
  Config config = small(false, false);
  const auto plain = saved_by(config);
  config.family = "qwen3", config.qk_norm = true;
  const auto normed = saved_by(config);
  // 4 tokens: stats of 6 heads as floats; q and k of 24 floats in work memory.
  EXPECT_EQ(normed.first - plain.first, 128);
  EXPECT_EQ(normed.second - plain.second, 4 * 24 * 4);
}

}  // namespace
}  // namespace ebb::model
