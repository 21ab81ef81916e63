// What a run learns from: its data, tokenized and laid into batches as the flags say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "ebb/train.h"
#include "files/model/tokenizer.h"
#include "text/data/data_set.h"
#include "text/data/file_digests.h"
#include "text/data/prefetch.h"
#include "text/data/validation.h"

namespace ebb::engine {

// Throws ConfigError that names the flag, what was found and what to write.
void check_data_flags(const TrainOptions& options);

// How conversations are written for a model; empty where its tokenizer has no chat template. Keeps
// a reference to the tokenizer.
text::ChatRenderer chat_renderer(const files::ModelTokenizer& tokenizer);

// Files and folders as data, read as the options say. `note` is told how far it is while that takes
// long. The data keeps references to `files` and to the tokenizer.
text::DataSet open_data(io::FileSystem& files, const std::vector<std::string>& names,
                        const TrainOptions& options, const files::ModelTokenizer& tokenizer,
                        std::int64_t vocabulary,
                        const std::function<void(const std::string&)>& note);
// Where compressed data is unpacked: TMPDIR, or else a disk that holds large files anyway, that of
// `out`, the run's folder, if there is one. Empty: where the system says.
std::filesystem::path folder_to_unpack_in(const std::string& out);
// As the options say, or as suits the data.
text::Packing packing_of(const text::DataSet& data, const TrainOptions& options);

class TrainingData {
 public:
  // Looks at all files. Keeps references to `files` and to the tokenizer. `note` is told what was
  // left out, and how far it is while that takes long.
  TrainingData(io::FileSystem& files, const TrainOptions& options,
               const files::ModelTokenizer& tokenizer, std::int64_t vocabulary, int threads,
               const std::function<void(const std::string&)>& note);

  // The part of the numerics key that is the data's, but for what the files hold.
  Json key() const;

  // What the files hold: {"training": {"content": digest of all, "files": [{"name", "bytes",
  // "digest"}]}, "validation": the same or null}. Of very many files only the digest of all.
  // Where opening the files did not read them, waits until they are read, and tells `note` so;
  // nothing where it was told not to go on before that.
  struct Contents {
    Json json;
    std::string problem;  // why a file has no digest; empty: all have
  };
  std::optional<Contents> contents(const std::function<void(const std::string&)>& note,
                                   const std::function<bool()>& go_on);
  // The same without waiting: files that are still to be read have no digest.
  Json contents_so_far() const;
  // The digest that checkpoints of earlier versions hold instead.
  std::string beginnings_digest() const { return data_.beginnings_digest(); }

  // Where a run goes on that was at `position` of data that has changed since: at the beginning of
  // the item of that number, or where there is none, of the next epoch.
  text::DataPosition position_after_change(text::DataPosition position) const;

  // Host memory it takes, batches and the tokens that wait to become some left out.
  Bytes memory_bytes() const;
  // Threads that read at the same time, the one that validates included.
  static int readers(int threads);

  // From `start` on. The object must outlive them.
  text::Prefetcher batches(text::DataPosition start) const;

  // What the run is validated on; nullptr where the flags name nothing. The same batches each time.
  std::unique_ptr<text::ValidationBatches> validation() const;

 private:
  // Makes all batches to validate on: what is wrong with them should not end a run that has begun.
  void check_validation(const std::function<void(const std::string&)>& note) const;

  const TrainOptions& options_;
  text::DataSet data_;
  text::BatchRules rules_;
  text::AheadBounds bounds_;
  std::optional<text::DataSet> evaluation_;
  std::unique_ptr<text::FileDigests> digests_;
  std::unique_ptr<text::FileDigests> evaluation_digests_;  // nullptr without evaluation_
};

}  // namespace ebb::engine
