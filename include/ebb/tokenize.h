// Text to a file of tokens, so that training need not tokenize it again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

struct TokenizeOptions {
  std::string model;              // as Model::open takes it (ebb/model.h): its tokenizer is used
  std::string tokenizer;          // or a folder with tokenizer.json, or bytes
  std::vector<std::string> data;  // text files, JSONL of texts, or folders of them
  std::string out;                // the file to make
  OnBadData on_bad_data = OnBadData::stop;
  std::string text_column;  // of JSONL and CSV: what holds the text; empty: as Ebb knows it
  int threads = 0;          // 0: as many as the machine lets us use
};

struct TokenizeProgress {
  std::int64_t items = 0;  // passages and lines, done
  std::int64_t of_items = 0;
  std::int64_t tokens = 0;
  double tokens_per_second = 0;
  double seconds_left = 0;  // a prediction from the items so far
};

struct TokenizeSummary {
  std::int64_t tokens = 0;
  Bytes bytes_per_token = 0;  // the width of an id in the file: 2 or 4
  std::string tokenizer;
  std::int64_t files = 0;
  std::vector<std::string> skipped;  // files, each with the reason
  std::int64_t bad_items = 0;        // passed over
  std::string first_bad_item;        // what was wrong with it
  double seconds = 0;
};

// The file appears under its name when it is complete. Throws an ebb::Error. `progress` is called
// now and then, on the calling thread.
TokenizeSummary tokenize(const TokenizeOptions& options,
                         const std::function<void(const TokenizeProgress&)>& progress);

}  // namespace ebb
