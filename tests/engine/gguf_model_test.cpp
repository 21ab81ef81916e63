// A model as a GGUF file is the model of the folder with the same weights: the same configuration,
// weights and logits, bit by bit.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/generator.h"
#include "engine/made_gguf_models.h"
#include "engine/small_runs.h"
#include "files/gguf/types.h"
#include "files/model/source.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A small one of a family, with what GGUF files can say.
Json small_config(const std::string& family, const Json& more) {
  Json json{{"model_type", family},     {"hidden_size", 32},        {"num_hidden_layers", 2},
            {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 16},
            {"intermediate_size", 48},  {"vocab_size", 40},         {"max_position_embeddings", 64},
            {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},    {"tie_word_embeddings", false}};
  json.update(more);
  return json;
}

struct Case {
  const char* name;
  const char* family;
  const char* more;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class GgufModel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    json_ = small_config(GetParam().family, Json::parse(GetParam().more));
    config_ = model::parse_config(json_, "config.json");
    weights_ = random_weights(config_);
  }
  // Both, with matrices of this type.
  void write(files::StoredType type) {
    std::filesystem::remove_all(folder());
    write_sharded(folder(), weights_, {type}, 1);
    files::write_text(files_, folder() / "config.json", json_.dump());
    files::MadeGguf made = gguf_keys(config_);
    add_weights(made, config_, weights_, type);
    files::write_text(files_, gguf(), made.bytes());
  }
  std::vector<float> logits(const std::filesystem::path& model, DType dtype) {
    const files::ModelSource source = files::find_model(files_, model.string());
    Generator generator(runtime_, files_, source,
                        {.config = source.config,
                         .dtype = dtype,
                         .positions = 16,
                         .limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}},
                         .extras = {}});
    const std::vector<std::int32_t> ids = {1, 5, 39, 2, 2, 17, 30};
    const auto found = generator.advance(ids);
    return {found.begin(), found.end()};
  }
  std::filesystem::path folder() const { return at_.path() / "folder"; }
  std::filesystem::path gguf() const { return at_.path() / "model.gguf"; }

  io::PosixFileSystem files_;
  io::TempFolder at_;
  Runtime runtime_{test_device(), 2};
  Json json_;
  model::Config config_;
  Weights weights_;
};

TEST_P(GgufModel, HasTheFoldersConfiguration) {
  write(files::StoredType::f32);
  const files::ModelSource source = files::find_model(files_, gguf().string());
  EXPECT_EQ(model::to_json(source.config, "fp32").dump(1), model::to_json(config_, "fp32").dump(1));
  EXPECT_TRUE(source.has_weights());
  EXPECT_EQ(files::stored_dtype(files_, source), DType::f32);
}

TEST_P(GgufModel, HasTheFoldersWeightsAndLogits) {
  for (const auto type : {files::StoredType::f32, files::StoredType::bf16}) {
    write(type);
    const model::Parameters parameters = model::parameters_of(config_);
    const auto load = [&](const std::filesystem::path& model) {
      std::vector<std::vector<float>> all(parameters.all.size());
      files::load_weights(files_, files::find_model(files_, model.string()), parameters,
                          [&](int p, std::int64_t first, std::span<const float> values) {
                            auto& to = all[static_cast<std::size_t>(p)];
                            ASSERT_EQ(static_cast<std::int64_t>(to.size()), first);
                            to.insert(to.end(), values.begin(), values.end());
                          });
      return all;
    };
    const auto expected = load(folder());
    const auto found = load(gguf());
    for (std::size_t p = 0; p < expected.size(); ++p) {
      if (parameters.all[p].matrix || type == files::StoredType::f32) {
        EXPECT_EQ(found[p], expected[p]) << parameters.all[p].name;
      }
    }
    if (type != files::StoredType::f32) continue;  // vectors of the folder are not F32 then
    for (const DType dtype : {DType::f32, DType::bf16}) {
      EXPECT_EQ(logits(gguf(), dtype), logits(folder(), dtype)) << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, GgufModel,
    testing::Values(
        Case{"llama", "llama", "{}"},
        Case{"llama_tied_biased", "llama",
             R"({"tie_word_embeddings": true, "attention_bias": true, "mlp_bias": true})"},
        Case{"llama3", "llama",
             R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                 "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}})"},
        Case{"linear", "llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 2.5}})"},
        Case{"mistral", "mistral", R"({"sliding_window": 5})"},
        Case{"qwen2", "qwen2", R"({"head_dim": 8, "tie_word_embeddings": true})"},
        Case{"qwen3", "qwen3", "{}"}, Case{"gemma", "gemma", R"({"tie_word_embeddings": true})"}),
    [](const auto& info) { return std::string(info.param.name); });

// Rows of blocks, in pairs, of a matrix that is read in several pieces.
TEST(GgufBlocks, RowsInPairsComeInOrder) {
  io::PosixFileSystem files;
  io::TempFolder at;
  constexpr std::int64_t width = 768, head = 64;
  const model::Config config =
      model::parse_config(small_config("llama", {{"hidden_size", width},
                                                 {"num_hidden_layers", 1},
                                                 {"num_attention_heads", width / head},
                                                 {"num_key_value_heads", 4},
                                                 {"head_dim", head}}),
                          "config.json");
  static_assert(width * width > 2 * files::kWeightPiece);
  const auto number = [](std::int64_t row, std::int64_t column) {
    return static_cast<std::int8_t>((row * 7 + column * 3) % 255 - 127);
  };
  std::string blocks;
  for (std::int64_t row = 0; row < width; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      if (column % 32 == 0) blocks += {'\x00', '\x24'};  // the scale, 1/64 in half precision
      blocks += static_cast<char>(number(row, column));
    }
  }
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  Weights weights = random_weights(config);
  weights.erase(name);
  files::MadeGguf made = gguf_keys(config);
  add_weights(made, config, weights);
  made.tensor("blk.0.attn_q.weight", 8, {width, width}, blocks);
  const std::filesystem::path path = at.path() / "model.gguf";
  files::write_text(files, path, made.bytes());

  const model::Parameters parameters = model::parameters_of(config);
  std::int64_t seen = 0;
  files::load_weights(files, files::find_model(files, path.string()), parameters,
                      [&](int p, std::int64_t first, std::span<const float> values) {
                        if (parameters.all[p].name != name) return;
                        for (const float value : values) {
                          const std::int64_t row = first / width, in_head = row % head;
                          const std::int64_t stored =
                              row - in_head + 2 * (in_head % (head / 2)) + in_head / (head / 2);
                          ASSERT_EQ(value, static_cast<float>(number(stored, first % width)) / 64)
                              << first;
                          ++first, ++seen;
                        }
                      });
  EXPECT_EQ(seen, width * width);
}

// Matrices in blocks are computed with as they are stored: in fp32 with the bits of the same
// numbers widened first, in bf16 near to them, in the memory that they take in the file.
class StoredBlocks : public testing::Test {
 protected:
  // Of every matrix another type, so that layers differ.
  StoredBlocks() {
    using enum kernels::WeightType;
    constexpr kernels::WeightType types[] = {q4_k, q6_k, q8_0, q5_0, q4_1, q2_k, q3_k, q5_k};
    const Weights weights = random_weights(config_);
    Weights others;
    files::MadeGguf made = gguf_keys(config_);
    int next = 0;
    for (const auto& [name, values] : weights) {
      const bool rotated =
          name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
      if (values.shape.size() != 2) {
        others[name] = values;
        continue;
      }
      const kernels::WeightType type = types[next++ % 8];
      const std::vector<float> rows = rotated ? in_pairs(values, config_.head_dim) : values.values;
      const auto count = static_cast<std::int64_t>(rows.size());
      std::vector<std::byte> blocks(to_size(grain_of(type).size_of(count)));
      files::narrow(type, rows, blocks);
      stored_ += static_cast<Bytes>(blocks.size());
      made.tensor(name_in_gguf(name), files::number_of(type),
                  {values.shape.rbegin(), values.shape.rend()},
                  {reinterpret_cast<const char*>(blocks.data()), blocks.size()});
    }
    add_weights(made, config_, others);
    files::write_text(files_, path(), made.bytes());
  }

  struct Made {
    std::vector<float> logits;
    Bytes weights = 0;  // planned, in both tiers
  };
  Made generate(DType dtype, bool stored, const plan::FixedGenerationChoices& fixed = {}) {
    const files::ModelSource source = files::find_model(files_, path().string());
    Generator generator(runtime_, files_, source,
                        {.config = source.config,
                         .dtype = dtype,
                         .kept = stored ? kept_types(files_, source, "cpu") : files::StoredTypes(),
                         .positions = 16,
                         .prompt_tokens = 6,
                         .limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}},
                         .fixed = fixed});
    const std::vector<std::int32_t> ids = {1, 5, 39, 2, 2, 17, 30};
    Made made;
    for (const std::int32_t id : ids) {
      const auto found = generator.advance({&id, 1});
      made.logits.assign(found.begin(), found.end());
    }
    for (const plan::Object& object : generator.plan().slice.program.objects) {
      const bool weights = object.persistent && object.purpose == plan::Purpose::weights;
      if (weights) made.weights += object.bytes;
    }
    return made;
  }
  std::filesystem::path path() const { return at_.path() / "model.gguf"; }

  io::PosixFileSystem files_;
  io::TempFolder at_;
  Runtime runtime_{DeviceKind::cpu, 2};
  model::Config config_ = model::parse_config(small_config("llama", {{"hidden_size", 256},
                                                                     {"num_hidden_layers", 3},
                                                                     {"num_attention_heads", 4},
                                                                     {"num_key_value_heads", 2},
                                                                     {"head_dim", 64},
                                                                     {"intermediate_size", 512}}),
                                              "config.json");
  Bytes stored_ = 0;  // bytes of all matrices
};

TEST_F(StoredBlocks, HaveTheBitsOfWidenedOnesInFp32) {
  const Made stored = generate(DType::f32, true);
  const Made widened = generate(DType::f32, false);
  EXPECT_EQ(stored.logits, widened.logits);
  EXPECT_LT(stored.weights, widened.weights / 4);
  EXPECT_GE(stored.weights, stored_);
  EXPECT_LT(stored.weights, stored_ + 64 * kKiB);
}

TEST_F(StoredBlocks, AreNearTheWidenedOnesInBf16) {
  const Made stored = generate(DType::bf16, true);
  const Made widened = generate(DType::bf16, false);
  double both = 0, one = 0, other = 0;
  for (std::size_t i = 0; i < stored.logits.size(); ++i) {
    both += static_cast<double>(stored.logits[i]) * widened.logits[i];
    one += static_cast<double>(stored.logits[i]) * stored.logits[i];
    other += static_cast<double>(widened.logits[i]) * widened.logits[i];
  }
  EXPECT_GT(both / std::sqrt(one * other), 0.999);
  EXPECT_NE(stored.logits, widened.logits) << "products of 8 bits were not used";
}

TEST_F(StoredBlocks, HaveTheSameBitsWhereverTheyLive) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Made here = generate(dtype, true, {.streamed_weights = 0});
    for (const std::int64_t by_cpu : {0, 2, 3}) {
      plan::FixedGenerationChoices fixed{.streamed_weights = 3};
      fixed.cpu_blocks = by_cpu;
      EXPECT_EQ(generate(dtype, true, fixed).logits, here.logits)
          << name_of(dtype) << ", by the CPU " << by_cpu;
    }
  }
}

// A factor without a type is the linear one.
TEST(GgufPositions, AFactorAloneStretches) {
  io::PosixFileSystem files;
  io::TempFolder at;
  const model::Config config =
      model::parse_config(small_config("llama", Json::object()), "config.json");
  files::MadeGguf made = gguf_keys(config);
  made.value("llama.rope.scaling.factor", 4.0f);
  add_weights(made, config, random_weights(config));
  files::write_text(files, at.path() / "model.gguf", made.bytes());
  const auto found = files::find_model(files, (at.path() / "model.gguf").string()).config;
  EXPECT_EQ(found.rope_scaling.kind, model::RopeScaling::Kind::linear);
  EXPECT_EQ(found.rope_scaling.factor, 4.0);
}

// What is asked of a Llama file, and how it is refused.
class GgufRefusal : public testing::Test {
 protected:
  template <class Change>
  std::string refusal(const Change& change, bool with_weights = true) {
    const model::Config config =
        model::parse_config(small_config("llama", Json::object()), "config.json");
    files::MadeGguf made = gguf_keys(config);
    if (with_weights) add_weights(made, config, random_weights(config));
    change(made);
    files::write_text(files_, path(), made.bytes());
    try {
      const files::ModelSource source = files::find_model(files_, path().string());
      files::check_weights(files_, source);
    } catch (const Error& error) {
      return error.what();
    }
    return "(none)";
  }
  std::filesystem::path path() const { return at_.path() / "model.gguf"; }

  io::PosixFileSystem files_;
  io::TempFolder at_;
};

TEST_F(GgufRefusal, WhatEbbDoesNotCompute) {
  const auto with = [&](const char* key, const auto& value) {
    return refusal([&](files::MadeGguf& made) { made.value(key, value); });
  };
  EXPECT_EQ(refusal([](files::MadeGguf&) {}), "(none)");
  EXPECT_THAT(with("llama.expert_count", std::uint32_t{8}), HasSubstr("mixtures of experts"));
  EXPECT_THAT(with("llama.attention.scale", 0.5f),
              AllOf(HasSubstr("'llama.attention.scale'"), HasSubstr("may change what")));
  EXPECT_THAT(with("llama.rope.scaling.type", "yarn"), HasSubstr("'yarn' are not supported"));
  EXPECT_THAT(with("llama.attention.causal", false), HasSubstr("not causal"));
  EXPECT_THAT(with("llama.rope.scaling.factor", std::numeric_limits<float>::infinity()),
              HasSubstr("llama.rope.scaling.factor is inf"));
  EXPECT_THAT(refusal([](files::MadeGguf& made) {
                made = files::MadeGguf().value("general.architecture", "mamba");
              }),
              AllOf(HasSubstr("architecture 'mamba' is not supported"),
                    HasSubstr("llama, qwen2, qwen3, gemma")));
  EXPECT_THAT(refusal([](files::MadeGguf& made) { made = files::MadeGguf(); }),
              HasSubstr("general.architecture is missing"));
  EXPECT_THAT(refusal([](files::MadeGguf& made) {
                made = files::MadeGguf().value("general.architecture", "llama");
              }),
              HasSubstr("llama.embedding_length is missing"));
  EXPECT_THAT(refusal([](files::MadeGguf& made) {
                made.floats("rope_freqs.weight", {8}, {1, 1, 1, 1, 1, 3, 8, 8});
              }),
              AllOf(HasSubstr("rope_freqs.weight has the factor"), HasSubstr("Llama 3.1")));
}

TEST_F(GgufRefusal, TensorsThatDoNotFit) {
  EXPECT_THAT(refusal([](files::MadeGguf& made) { made.floats("blk.0.other", {1}, {1}); }),
              AllOf(HasSubstr("'blk.0.other'"), HasSubstr("does not belong to a llama model")));
  EXPECT_THAT(refusal([](files::MadeGguf&) {}, false), HasSubstr("token_embd.weight is missing"));
  EXPECT_THAT(refusal(
                  [](files::MadeGguf& made) {
                    made.floats("token_embd.weight", {32, 40}, std::vector<float>(32 * 40));
                  },
                  false),
              HasSubstr("tensor blk.0"));
  EXPECT_THAT(refusal(
                  [](files::MadeGguf& made) {
                    made.floats("token_embd.weight", {16, 40}, std::vector<float>(16 * 40));
                  },
                  false),
              AllOf(HasSubstr("has shape [40, 16]"), HasSubstr("make it [40, 32]")));
}

TEST_F(GgufRefusal, VectorsInBlocks) {
  const model::Config config =
      model::parse_config(small_config("llama", {{"attention_bias", true}}), "config.json");
  const auto refused_without = [&](const char* name, auto add) {
    Weights weights = random_weights(config);
    weights.erase(name);
    return refusal([&](files::MadeGguf& made) {
      made = gguf_keys(config);
      add_weights(made, config, weights);
      add(made);
    });
  };
  EXPECT_THAT(refused_without("model.layers.0.self_attn.o_proj.bias", [](files::MadeGguf&) {}),
              AllOf(HasSubstr("blk.0.attn_output.bias is missing"), HasSubstr("other biases")));
  EXPECT_THAT(refused_without("model.layers.0.self_attn.q_proj.bias",
                              [](files::MadeGguf& made) {
                                made.tensor("blk.0.attn_q.bias", 8, {64},
                                            std::string(2 * 34, '\0'));
                              }),
              AllOf(HasSubstr("'blk.0.attn_q.bias' is a vector in blocks (Q8_0)"),
                    HasSubstr("F32, F16 or BF16")));
}

TEST_F(GgufRefusal, ValuesThatAreNotFinite) {
  const model::Config config =
      model::parse_config(small_config("llama", Json::object()), "config.json");
  Weights weights = random_weights(config);
  weights["model.norm.weight"].values[3] = std::numeric_limits<float>::infinity();
  files::MadeGguf made = gguf_keys(config);
  add_weights(made, config, weights);
  files::write_text(files_, path(), made.bytes());
  const files::ModelSource source = files::find_model(files_, path().string());
  std::string said;
  try {
    files::load_weights(files_, source, model::parameters_of(config), [](auto...) {});
  } catch (const FormatError& error) {
    said = error.what();
  }
  EXPECT_THAT(said, AllOf(HasSubstr("'output_norm.weight' has the value inf at element 3")));
}

}  // namespace
}  // namespace ebb::engine
