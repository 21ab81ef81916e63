// Reading data as training would, without training: what is in it, what is wrong with it, and what
// the model sees of it.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

// Of which data, for which model. Fields are named as the command line's flags.
struct CheckOptions {
  std::string model;              // as Model::open takes it (ebb/model.h)
  std::string tokenizer;          // a folder with tokenizer.json, or bytes; none: the model's own
  std::vector<std::string> data;  // text, JSONL, CSV and token files, compressed or not, or folders
  RowPacking packing = RowPacking::automatic;
  LossOn loss = LossOn::completion;
  std::string text_column;
  std::string messages_column;
  std::int64_t sequence = 512;
  int examples = 1;  // of each kind of items that is among the data
  int threads = 0;   // 0: as many as the machine lets us use
};

// What an example becomes. Its texts can be shown on a terminal: what cannot be is written \x1b.
struct CheckedToken {
  std::int32_t id = 0;
  bool learned = false;         // predicting it carries loss
  bool begins_another = false;  // it does not go on from the token before
  std::string text;             // may be a part of a character, which is written \xc3, too
};
struct CheckedExample {
  std::string where;  // the file and the line
  std::vector<CheckedToken> tokens;
};

struct CheckedFile {
  std::string path;
  std::string items_are;  // "texts", "conversations", ...
  std::int64_t items = 0;
  std::int64_t bad_items = 0;
  std::int64_t tokens = 0;
  std::int64_t learned_tokens = 0;
};

struct CheckSummary {
  std::vector<CheckedFile> files;
  std::vector<std::string> left_out;  // files that are no data, each with the reason
  std::vector<std::string> broken;    // files that cannot be read, and what training refuses
  std::int64_t items = 0;             // blank lines are none
  std::int64_t bad_items = 0;
  std::int64_t tokens = 0;
  std::int64_t learned_tokens = 0;
  std::int64_t longest = 0;     // tokens of an item, or of a part that begins anew
  std::string longest_where;    // the file and the line
  std::string packing;          // how items are laid into rows; empty where that is refused
  std::int64_t cut_items = 0;   // longer than a row, where no item runs on
  std::int64_t cut_tokens = 0;  // that they would lose
  std::vector<CheckedExample> examples;

  bool good() const { return bad_items == 0 && broken.empty(); }
};

// Told while it reads, on the thread that called check().
class CheckObserver {
 public:
  virtual ~CheckObserver() = default;
  virtual void note(const std::string& text) = 0;
  // What is wrong with an item, with its file and line, in the order of the files.
  virtual void bad_item(const std::string& problem) = 0;
  virtual void progress(std::int64_t items, std::int64_t of_items) = 0;
};

// Reads all of the data. Throws an ebb::Error where there is none, or no tokenizer for it;
// Cancelled where `stop` asks for it.
CheckSummary check(const CheckOptions& options, CheckObserver& observer, std::stop_token stop = {});

}  // namespace ebb
