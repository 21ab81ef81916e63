// The promise: folders of models come in and go out without loss, and never lie twice in memory.
#include <malloc.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/made_folders.h"
#include "files/folder.h"
#include "files/model/source.h"
#include "io/temp_folder.h"
#include "io/text_file.h"

namespace ebb::engine {
namespace {

using files::StoredType;
using testing::AllOf;
using testing::HasSubstr;

// Notes how much was read at once and in all; otherwise the machine's files.
class CountingFileSystem final : public io::FileSystem {
 public:
  struct Counts {
    Bytes largest = 0;  // of reads behind a file's header
    Bytes total = 0;
  };

  Counts counts;

  std::unique_ptr<io::File> open(const std::filesystem::path& path) override {
    return std::make_unique<CountingFile>(files_.open(path), counts);
  }
  std::unique_ptr<io::File> create(const std::filesystem::path& path) override {
    return files_.create(path);
  }
  bool exists(const std::filesystem::path& path) override { return files_.exists(path); }
  bool is_directory(const std::filesystem::path& path) override {
    return files_.is_directory(path);
  }
  bool is_file(const std::filesystem::path& path) override { return files_.is_file(path); }
  bool is_link(const std::filesystem::path& path) override { return files_.is_link(path); }
  std::vector<std::filesystem::path> list(const std::filesystem::path& path) override {
    return files_.list(path);
  }
  void make_directory(const std::filesystem::path& path) override { files_.make_directory(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    files_.rename(from, to);
  }
  void remove_all(const std::filesystem::path& path) override { files_.remove_all(path); }
  Bytes available(const std::filesystem::path& path) override { return files_.available(path); }
  void sync_directory(const std::filesystem::path& path) override { files_.sync_directory(path); }

 private:
  class CountingFile final : public io::File {
   public:
    CountingFile(std::unique_ptr<io::File> file, Counts& counts)
        : File(file->path()), file_(std::move(file)), counts_(counts) {}
    void read(Bytes offset, std::span<std::byte> to) override {
      // The header's length and the header itself come first.
      if (offset > 8) {
        counts_.largest = std::max(counts_.largest, static_cast<Bytes>(to.size()));
        counts_.total += static_cast<Bytes>(to.size());
      }
      file_->read(offset, to);
    }
    void write(Bytes offset, std::span<const std::byte> from) override {
      file_->write(offset, from);
    }
    void sync() override { file_->sync(); }
    io::FileStamp stamp() const override { return file_->stamp(); }

   private:
    std::unique_ptr<io::File> file_;
    Counts& counts_;
  };

  io::PosixFileSystem files_;
};

Bytes heap_bytes() {
  const auto info = ::mallinfo2();
  return static_cast<Bytes>(info.uordblks + info.hblkhd);
}

Weights load_all(io::FileSystem& files, const std::filesystem::path& folder) {
  const files::ModelSource source = files::find_model(files, folder.string());
  const model::Parameters parameters = model::parameters_of(source.config);
  Weights loaded;
  files::load_weights(
      files, source, parameters, [&](int p, std::int64_t first, std::span<const float> values) {
        const model::Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
        NamedValues& all = loaded[parameter.name];
        EXPECT_EQ(static_cast<std::int64_t>(all.values.size()), first) << parameter.name;
        all.values.insert(all.values.end(), values.begin(), values.end());
      });
  return loaded;
}

void expect_equal(const Weights& found, const Weights& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).values, values.values) << name;
  }
}

class ModelFolderTest : public testing::Test {
 protected:
  void write_json(const std::string& path, const Json& json) {
    files::write_text(files, folder / path, json.dump(2));
  }
  Json json_of(const std::filesystem::path& path) {
    return parse_json(io::read_text(files, path, kMiB), path.string());
  }
  std::string refusal(const std::filesystem::path& model) {
    try {
      load_all(files, model);
    } catch (const Error& error) {
      return error.what();
    }
    return "(no error)";
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
};

TEST_F(ModelFolderTest, LoadsShardsOfMixedTypes) {
  for (const std::string family :
       {"training/llama", "training/qwen2", "families/gemma", "families/gpt2",
        "families/llama_biases", "families/llama_scaled", "families/mistral", "families/qwen3"}) {
    SCOPED_TRACE(family);
    const Weights golden = read_weights(golden_folder(family));
    const std::filesystem::path model = folder / family;
    files.make_directories(model);
    write_sharded(model, golden, {StoredType::f32, StoredType::f16, StoredType::bf16}, 3);
    write_json(family + "/config.json", json_of(golden_folder(family) / "config.json"));
    const Weights stored = read_weights(model);
    expect_equal(load_all(files, model), stored);
    // The halves are near what they were made of, and not all the same.
    double largest = 0;
    for (const auto& [name, values] : golden) {
      for (std::size_t i = 0; i < values.values.size(); ++i) {
        const double wanted = values.values[i];
        const double error = std::fabs(stored.at(name).values[i] - wanted);
        ASSERT_LE(error, std::fabs(wanted) / 256 + 1e-7) << name << " at " << i;
        largest = std::max(largest, error);
      }
    }
    EXPECT_GT(largest, 0);
  }
}

TEST_F(ModelFolderTest, TheTypeToComputeInIsTheOneMostAreStoredIn) {
  const Weights golden = read_weights(golden_folder("training/qwen2"));
  write_json("config.json", json_of(golden_folder("training/qwen2") / "config.json"));
  for (const auto& [type, expected] : {std::pair{StoredType::f32, DType::f32},
                                       {StoredType::f16, DType::bf16},
                                       {StoredType::bf16, DType::bf16}}) {
    write_sharded(folder.path(), golden, {type}, 2);
    EXPECT_EQ(files::stored_dtype(files, files::find_model(files, folder.path().string())),
              expected);
  }
}

// A model of one wide embedding, so that a tensor is many pieces.
TEST_F(ModelFolderTest, LoadingHoldsPiecesOnly) {
  Json config = json_of(golden_folder("training/qwen2") / "config.json");
  config["vocab_size"] = 60000;
  write_json("config.json", config);
  const model::Config parsed = model::parse_config(config, "config.json");
  Weights weights;
  Bytes bytes = 0;
  for (const model::Parameter& parameter : model::parameters_of(parsed).all) {
    NamedValues& values = weights[parameter.name];
    values.shape = parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                                    : std::vector{parameter.rows};
    values.values.assign(static_cast<std::size_t>(parameter.count()), 0.5f);
    bytes += 4 * parameter.count();
  }
  write_sharded(folder.path(), weights, {StoredType::f32}, 2);
  weights.clear();
  ASSERT_GT(bytes, 7 * kMiB);

  CountingFileSystem counting;
  const files::ModelSource source = files::find_model(counting, folder.path().string());
  const model::Parameters parameters = model::parameters_of(source.config);
  counting.counts = {};
  const Bytes before = heap_bytes();
  Bytes most = 0;
  files::load_weights(counting, source, parameters,
                      [&](int, std::int64_t, std::span<const float> values) {
                        EXPECT_LE(static_cast<std::int64_t>(values.size()), ParameterStore::kPiece);
                        most = std::max(most, heap_bytes() - before);
                      });
  constexpr Bytes piece = 4 * ParameterStore::kPiece;
  EXPECT_EQ(counting.counts.largest, piece);
  EXPECT_EQ(counting.counts.total, bytes) << "every byte is read once";
  // Two pieces, as stored and as floats; headers and names take little.
  EXPECT_LE(most, 2 * piece + 128 * kKiB);
}

TEST_F(ModelFolderTest, HalvesThatAreNotFiniteAreRefused) {
  Weights golden = read_weights(golden_folder("training/qwen2"));
  write_json("config.json", json_of(golden_folder("training/qwen2") / "config.json"));
  const std::string name = "model.norm.weight";
  for (const auto& [bits, word] : {std::pair{0x7c00, "inf"}, {0xfc00, "-inf"}, {0x7e01, "nan"}}) {
    std::vector<files::MadeTensor> tensors;
    for (const auto& [tensor, values] : golden) {
      tensors.push_back(made(tensor, values, StoredType::f16));
      if (tensor != name) continue;
      tensors.back().bytes[2 * 5] = static_cast<std::byte>(bits & 0xff);
      tensors.back().bytes[2 * 5 + 1] = static_cast<std::byte>(bits >> 8);
    }
    files::write_safetensors(files, folder / "model.safetensors", tensors);
    EXPECT_THAT(refusal(folder.path()),
                AllOf(HasSubstr("model.safetensors"), HasSubstr(name), HasSubstr(word),
                      HasSubstr("element 5"), HasSubstr("must be finite")));
  }
}

TEST_F(ModelFolderTest, WhatIsNoParameterIsPassedOver) {
  Weights weights = read_weights(golden_folder("training/qwen2"));
  const Weights golden = weights;
  weights["lm_head.weight"] = weights["model.embed_tokens.weight"];  // tied: a second time
  weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{4}, {1, 2, 3, 4}};
  write_sharded(folder.path(), weights, {StoredType::f32}, 2);
  write_json("config.json", json_of(golden_folder("training/qwen2") / "config.json"));
  expect_equal(load_all(files, folder.path()), golden);
}

TEST_F(ModelFolderTest, AHeadThatDiffersFromATiedEmbeddingIsUsed) {
  Weights weights = read_weights(golden_folder("training/qwen2"));
  const std::filesystem::path config = golden_folder("training/qwen2") / "config.json";
  ASSERT_TRUE(model::parse_config(json_of(config), "config.json").tied);
  write_json("config.json", json_of(config));
  NamedValues& head = weights["lm_head.weight"] = weights["model.embed_tokens.weight"];
  head.values.back() += 1;
  write_sharded(folder.path(), weights, {StoredType::f32}, 2);
  CountingFileSystem counting;
  const files::ModelSource source = files::find_model(counting, folder.path().string());
  EXPECT_LE(counting.counts.largest, 4 * ParameterStore::kPiece);
  EXPECT_FALSE(source.config.tied);
  EXPECT_THAT(source.head_note, HasSubstr("tie_word_embeddings false"));
  expect_equal(load_all(files, folder.path()), weights);
  // Saved as what it is.
  const files::SidecarFiles sidecar_files = files::find_sidecar_files(files, source, {}, {});
  EXPECT_EQ(files::config_to_save(sidecar_files, DType::f32)["tie_word_embeddings"], false);

  // The same values in another type are no head of their own; another shape is told by loading.
  weights["lm_head.weight"] = weights["model.embed_tokens.weight"];
  std::vector<files::MadeTensor> tensors;
  for (const auto& [name, values] : weights) {
    NamedValues rounded = values;
    for (float& value : rounded.values) value = to_float(to_bf16(value));
    tensors.push_back(
        made(name, rounded, name == "lm_head.weight" ? StoredType::bf16 : StoredType::f32));
  }
  std::filesystem::remove(folder / std::string(files::kIndexName));
  files::write_safetensors(files, folder / "model.safetensors", tensors);
  EXPECT_TRUE(files::find_model(files, folder.path().string()).config.tied);
  EXPECT_EQ(files::find_model(files, folder.path().string()).head_note, "");
  weights["lm_head.weight"] = {{2, 2}, {1, 2, 3, 4}};
  std::filesystem::remove(folder / "model.safetensors");
  write_sharded(folder.path(), weights, {StoredType::f32}, 2);
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("lm_head.weight"), HasSubstr("[2, 2]")));
}

TEST_F(ModelFolderTest, DropoutIsNoted) {
  Json config = json_of(golden_folder("families/gpt2") / "config.json");
  for (const char* key :
       {"attention_dropout", "hidden_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    for (const Json& value : {Json(0.1), Json(0.0), Json(nullptr), Json("none")}) {
      for (const char* other : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[other] = 0;
      config[key] = value;
      write_json("config.json", config);
      const std::string note = files::find_model(files, folder.path().string()).dropout_note;
      if (value == 0.1) {
        EXPECT_THAT(note, HasSubstr(fmt::format("({} 0.1): Ebb trains without", key)));
      } else {
        EXPECT_EQ(note, "") << key << " " << value;
      }
      config.erase(key);
    }
  }
}

// In, trained for no or for one step, out, and in again.
class RoundTripTest : public ModelFolderTest {
 protected:
  void SetUp() override {
    Json config = json_of(golden_folder("training/qwen2") / "config.json");
    config["a_field_of_others"] = {{"kept", true}};
    files.make_directories(model);
    write_json("model/config.json", config);
    write_json("model/generation_config.json", {{"eos_token_id", {7, 8}}});
    write_json("model/tokenizer.json", {{"version", "1.0"}});
    files::write_text(files, model / "chat_template.jinja", "{{ messages }}");
    files::write_text(files, model / "notes.txt", "stays where it is");
  }

  TrainingSettings settings(DType dtype) {
    TrainingSettings s = small_settings();
    s.config = files::find_model(files, model.string()).config;
    s.dtype = s.gradient_type = dtype;
    return s;
  }

  void load(TrainingRun& run, const std::filesystem::path& from) {
    files::load_weights(files, files::find_model(files, from.string()), run.store().parameters(),
                        [&](int p, std::int64_t first, std::span<const float> values) {
                          run.store().write_master(p, first, values);
                        });
    run.store().clear_moments();
  }

  std::filesystem::path save(TrainingRun& run) {
    const std::vector<std::string> names = {"tokenizer.json", "chat_template.jinja"};
    const files::SidecarFiles sidecar_files =
        files::find_sidecar_files(files, files::find_model(files, model.string()), model, names);
    return save_checkpoint(
        files, folder / "run", run.store(), sidecar_files,
        {.step = run.steps_done(), .data_position = {}, .seed = 0, .numerics_key = {}}, 2);
  }

  std::filesystem::path model = folder / "model";
  Runtime runtime{test_device(), 2};
};

TEST_F(RoundTripTest, WeightsComeBackEqual) {
  const Weights golden = read_weights(golden_folder("training/qwen2"));
  const struct {
    std::vector<files::StoredType> types;
    int shards;
    DType dtype;
  } cases[] = {{{StoredType::f32}, 1, DType::f32},
               {{StoredType::f16}, 2, DType::f32},
               {{StoredType::bf16}, 3, DType::bf16},
               {{StoredType::f32, StoredType::f16, StoredType::bf16}, 4, DType::f32}};
  for (const auto& [types, shards, dtype] : cases) {
    SCOPED_TRACE(fmt::format("{} files, {}", shards, name_of(dtype)));
    write_sharded(model, golden, types, shards);
    const Weights stored = read_weights(model);
    TrainingRun run(runtime, settings(dtype));
    load(run, model);
    expect_equal(load_all(files, save(run)), stored);
    // And with a step between: what is saved is what was trained.
    run.step(made_up_batches(run.settings(), 0));
    run.finish();
    const std::filesystem::path saved = save(run);
    TrainingRun again(runtime, settings(dtype));
    load_checkpoint(files, saved, again.settings().format, again.store());
    EXPECT_EQ(again.store().weights_digest(), run.store().weights_digest());
    const Weights trained = load_all(files, saved);
    const std::string name = "model.layers.0.self_attn.q_proj.weight";
    EXPECT_NE(trained.at(name).values, stored.at(name).values);
  }
}

TEST_F(RoundTripTest, TheRestOfTheFolderGoesWithIt) {
  write_sharded(model, read_weights(golden_folder("training/qwen2")), {StoredType::f16}, 2);
  TrainingRun run(runtime, settings(DType::bf16));
  load(run, model);
  const std::filesystem::path saved = save(run);
  for (const char* name : {"generation_config.json", "tokenizer.json", "chat_template.jinja"}) {
    EXPECT_EQ(io::read_text(files, saved / name, kMiB), io::read_text(files, model / name, kMiB));
  }
  EXPECT_FALSE(files.exists(saved / "notes.txt"));
  EXPECT_FALSE(files.exists(saved / files::kIndexName)) << "the weights are one file now";
  Json expected = json_of(model / "config.json");
  expected["dtype"] = "bfloat16";
  EXPECT_EQ(json_of(saved / "config.json"), expected);
  EXPECT_EQ(files::find_model(files, saved.string()).config,
            files::find_model(files, model.string()).config);

  // All of it is in the manifest.
  files::verify(files, saved);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"}) {
    const std::string whole = io::read_text(files, saved / name, kMiB);
    files::write_text(files, saved / name, whole + " ");
    EXPECT_THROW(files::verify_model(files, files::find_model(files, saved.string())), FormatError)
        << name;
    files::write_text(files, saved / name, whole);
  }
  // What a checkpoint must have is not to be cut out of the manifest, of any version.
  files::Manifest manifest = files::read_manifest(files, saved);
  const std::string whole = io::read_text(files, saved / files::kManifestName, kMiB);
  for (const std::string_view required : files::kCheckpointFiles) {
    for (const int version : {1, 2}) {
      files::Manifest cut = manifest;
      cut.version = version;
      std::erase_if(cut.files, [&](const auto& file) { return file.name == required; });
      ASSERT_EQ(cut.files.size() + 1, manifest.files.size()) << required;
      files::write_text(files, saved / "manifest.json", files::format_manifest(cut));
      EXPECT_THROW(files::verify_checkpoint(files, saved), FormatError) << required;
      // The weights alone are a model, too.
      const bool of_model = std::find(files::kModelFiles.begin(), files::kModelFiles.end(),
                                      required) != files::kModelFiles.end();
      const auto verify = [&] {
        files::verify_model(files, files::find_model(files, saved.string()));
      };
      if (of_model) {
        EXPECT_THROW(verify(), FormatError) << required;
      } else {
        verify();
      }
    }
  }
  files::write_text(files, saved / "manifest.json", whole);
  files::verify_checkpoint(files, saved);
  // The training state is no part of the model.
  files::write_text(files, saved / "state.safetensors", "cut");
  files::verify_model(files, files::find_model(files, saved.string()));
  EXPECT_THROW(files::verify(files, saved), FormatError);
}

// A resumed run may have found its model in a checkpoint that is gone by the next save.
TEST_F(RoundTripTest, CompanionsOutliveTheirFolder) {
  write_sharded(model, read_weights(golden_folder("training/qwen2")), {StoredType::f32}, 1);
  TrainingRun run(runtime, settings(DType::f32));
  load(run, model);
  const std::vector<std::string> names = {"tokenizer.json"};
  const files::SidecarFiles sidecar_files =
      files::find_sidecar_files(files, files::find_model(files, model.string()), model, names);
  const std::string tokenizer = io::read_text(files, model / "tokenizer.json", kMiB);
  files.remove_all(model);
  const std::filesystem::path saved =
      save_checkpoint(files, folder / "run", run.store(), sidecar_files, files::TrainingState{}, 1);
  EXPECT_EQ(io::read_text(files, saved / "tokenizer.json", kMiB), tokenizer);
  EXPECT_TRUE(json_of(saved / "config.json").contains("a_field_of_others"));
}

TEST_F(RoundTripTest, BothNamesOfTheTypeAreKeptUp) {
  files::SidecarFiles sidecar_files{.config = small_config(), .stored_config = {}, .copies = {}};
  EXPECT_EQ(files::config_to_save(sidecar_files, DType::bf16),
            model::to_json(small_config(), "bf16"));
  sidecar_files.stored_config = {{"torch_dtype", "float16"}};
  EXPECT_EQ(files::config_to_save(sidecar_files, DType::f32)["torch_dtype"], "float32");
  EXPECT_FALSE(files::config_to_save(sidecar_files, DType::f32).contains("dtype"));
  EXPECT_TRUE(files::config_to_save(sidecar_files, DType::f32).contains("architectures"));
  sidecar_files.stored_config = {{"dtype", "float16"}, {"torch_dtype", "float16"}};
  const Json both = files::config_to_save(sidecar_files, DType::bf16);
  EXPECT_EQ(both["dtype"], "bfloat16");
  EXPECT_EQ(both["torch_dtype"], "bfloat16");
  sidecar_files.stored_config = {{"model_type", "llama"}};
  EXPECT_EQ(files::config_to_save(sidecar_files, DType::bf16)["torch_dtype"], "bfloat16");
}

}  // namespace
}  // namespace ebb::engine
