// Parameters of several pieces and a rest: what goes in comes out, to the bit, at every site.
#include "engine/parameter_store.h"

#include <bit>
#include <functional>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "engine/checkpointing.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

constexpr plan::Site kSites[] = {plan::Site::resident, plan::Site::stream, plan::Site::host};
constexpr states::StateFormat kFormats[] = {states::StateFormat::exact, states::StateFormat::bf16,
                                            states::StateFormat::int8};

TrainingSettings settings_at(plan::Site site) {
  TrainingSettings s = small_settings();
  s.config.vocabulary = 2 * ParameterStore::kPiece / s.config.hidden + 77;
  s.fixed.site = site;
  s.fixed.chunk_parameters = 3 << 16;  // no divisor of a piece
  return s;
}

// Any bits but those of signalling NaNs, which a copy as a float may change.
std::vector<float> made_up_masters(std::int64_t count) {
  const CounterRng rng(11, 0);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(rng.below(i, std::uint64_t{1} << 32));
    const bool nan = (bits & 0x7f800000u) == 0x7f800000u;
    values[i] = std::bit_cast<float>(nan ? bits | 0x00400000u : bits);
  }
  return values;
}

std::string digest_of(std::span<const float> values) {
  Digest digest;
  digest.add(std::as_bytes(values));
  return digest.hex();
}

using Access = std::function<void(int parameter, std::int64_t first, std::span<float> values)>;

// Parameter by parameter in ranges of that length, as ParameterStore's pieces never are.
void for_ranges(ParameterStore& store, std::span<float> values, std::int64_t length,
                const Access& access) {
  for (int p = 0; p < static_cast<int>(store.parameters().all.size()); ++p) {
    const std::int64_t count = store.parameters().all[static_cast<std::size_t>(p)].count();
    for (std::int64_t first = 0; first < count; first += length) {
      const std::int64_t n = std::min(length, count - first);
      access(p, first,
             values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
    }
    values = values.subspan(static_cast<std::size_t>(count));
  }
}

// So that what is read cannot be what was left there by a write.
void forget_staging(ParameterStore& store) {
  std::fill_n(store.staging(), ParameterStore::kStagingBytes, std::byte{0x5a});
}

TEST(ParameterStore, GivesBackMastersToTheBit) {
  Runtime runtime(test_device(), 2);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const plan::Site site : kSites) {
      SCOPED_TRACE(name_of(site));
      TrainingSettings settings = settings_at(site);
      settings.dtype = settings.gradient_type = dtype;
      TrainingRun run(runtime, settings);
      ParameterStore& store = run.store();
      std::vector<float> written = made_up_masters(store.parameters().count());
      std::vector<float> found(written.size());
      for_ranges(store, written, 2 * ParameterStore::kPiece + 13,
                 [&](int p, std::int64_t first, std::span<float> values) {
                   store.write_master(p, first, values);
                 });
      forget_staging(store);
      EXPECT_EQ(store.weights_digest(), digest_of(written));
      for_ranges(store, found, ParameterStore::kPiece + 101,
                 [&](int p, std::int64_t first, std::span<float> values) {
                   store.read_master(p, first, values);
                 });
      EXPECT_EQ(digest_of(found), digest_of(written));
    }
  }
}

TEST(ParameterStore, GivesSeveralParametersTheSameValues) {
  Runtime runtime(test_device(), 2);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    TrainingSettings settings = settings_at(plan::Site::host);
    settings.dtype = settings.gradient_type = dtype;
    TrainingRun run(runtime, settings);
    initialize(run);
    ParameterStore& store = run.store();
    const auto& blocks = store.parameters().blocks;
    const std::vector<int> alike = {blocks[1].parameters.back(), blocks[3].parameters.back()};
    const std::vector<float> written = made_up_masters(40);
    store.write_master(alike, 3, written);
    for (const int p : alike) {
      forget_staging(store);
      std::vector<float> found(written.size());
      store.read_master(p, 3, found);
      EXPECT_EQ(digest_of(found), digest_of(written)) << "parameter " << p;
    }
  }
}

TEST(ParameterStore, SavesLoadsAndDigestsMomentsOfEveryFormat) {
  Runtime runtime(test_device(), 2);
  io::TempFolder folder;
  io::PosixFileSystem files;
  for (const states::StateFormat format : kFormats) {
    SCOPED_TRACE(name_of(format));
    TrainingSettings settings = settings_at(plan::Site::resident);
    settings.format = format;
    TrainingRun run(runtime, settings);
    initialize(run);
    run.step(made_up_batches(settings, 0));
    run.finish();
    ParameterStore& store = run.store();
    std::vector<float> moments[2];
    for (const Plane plane : {Plane::first, Plane::second}) {
      auto& values = moments[plane == Plane::second];
      values.resize(static_cast<std::size_t>(store.parameters().count()));
      for_ranges(store, values, ParameterStore::kPiece + kernels::kStateBlock,
                 [&](int p, std::int64_t first, std::span<float> to) {
                   store.read_moment(plane, p, first, to);
                 });
    }
    Digest expected;
    std::size_t first = 0;
    for (const model::Parameter& parameter : store.parameters().all) {
      const auto count = static_cast<std::size_t>(parameter.count());
      for (const auto& values : moments) {
        expected.add(std::as_bytes(std::span(values).subspan(first, count)));
      }
      first += count;
    }
    EXPECT_EQ(store.moments_digest(), expected.hex());

    const std::filesystem::path saved =
        save_checkpoint(files, folder / std::string(name_of(format)), store,
                        {.config = settings.config, .stored_config = {}, .copies = {}},
                        {.step = 1, .data_position = {}, .seed = 7, .numerics_key = {}}, 1);
    for (const plan::Site site : kSites) {
      SCOPED_TRACE(name_of(site));
      TrainingSettings there = settings_at(site);
      there.format = format;
      TrainingRun loaded(runtime, there);
      load_checkpoint(files, saved, format, loaded.store());
      EXPECT_EQ(loaded.store().weights_digest(), store.weights_digest());
      EXPECT_EQ(loaded.store().moments_digest(), expected.hex());
    }
  }
}

}  // namespace
}  // namespace ebb::engine
