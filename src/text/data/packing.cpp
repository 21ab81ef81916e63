#include "text/data/packing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

// Of the part of an item that the token at `offset` belongs to.
std::int64_t part_end(const VisitedItem& visited, std::int64_t offset) {
  const auto& begins = visited.item.part_begins;
  const auto next = std::ranges::upper_bound(begins, to_size(offset));
  return static_cast<std::int64_t>(next == begins.end() ? visited.item.tokens.size() : *next);
}

std::int64_t size_of(const VisitedItem& visited) {
  return static_cast<std::int64_t>(visited.item.tokens.size());
}

void check_shape(BatchShape shape) {
  if (shape.sequence < 1 || shape.rows < 1) {
    throw ConfigError(
        fmt::format("a batch of {} rows of {} tokens is empty; give a batch of at "
                    "least 1 row and a sequence of at least 1 token",
                    shape.rows, shape.sequence));
  }
  // A token and a target are eight bytes.
  if (shape.rows > std::numeric_limits<Bytes>::max() / 8 / shape.sequence) {
    throw ConfigError(
        fmt::format("a batch of {} rows of {} tokens is larger than any memory; "
                    "give fewer rows",
                    shape.rows, shape.sequence));
  }
}

}  // namespace

std::string_view name_of(Packing packing) {
  switch (packing) {
    case Packing::stream: return "stream";
    case Packing::fit: return "fit";
    case Packing::none: return "none";
  }
  return "";
}

Packing choose_packing(const DataSet& data, std::optional<Packing> given) {
  const bool prompts = data.find(Form::completions) || data.find(Form::conversations);
  const Packing packing = given.value_or(prompts ? Packing::none : Packing::stream);
  if (packing == Packing::stream) return packing;
  for (const Form form : {Form::passages, Form::windows}) {
    if (const ItemFile* file = data.find(form)) {
      throw ConfigError(fmt::format(
          "{} is {}, not a list of examples, so it cannot be laid into rows with --packing {}{}; "
          "use --packing stream, or give it as JSONL lines of {{\"text\": ...}}",
          file->file().name(), form == Form::passages ? "plain text" : "a stream of tokens",
          name_of(packing), given ? "" : ", the default for prompts and messages"));
    }
  }
  return packing;
}

BatchMaker::BatchMaker(BatchShape shape, Packing packing, std::int32_t padding, DataPosition start,
                       Source source)
    : shape_(shape),
      packing_(packing),
      padding_(padding),
      start_(start),
      source_(std::move(source)) {
  check_shape(shape);
}

std::optional<VisitedItem> BatchMaker::take() {
  // An item may have no tokens where a tokenizer drops characters.
  LeftOut left_out;
  std::optional<DataPosition> first;
  for (;;) {
    std::optional<VisitedItem> item = source_();
    if (!item) return item;
    if (size_of(*item) > 0) {
      item->left_out = std::move(left_out);
      return item;
    }
    if (!item->item.problem.empty()) {
      left_out.add({.bad_items = 1, .first_problem = std::move(item->item.problem)});
    }
    // The order of training has no end, and would be searched for ever.
    if (first && item->at.epoch > first->epoch && item->at.item >= first->item) {
      throw FormatError(
          fmt::format("no item of the data can be used: {} of them were bad, and none had tokens{}",
                      left_out.bad_items,
                      left_out.bad_items == 0 ? "" : "; the first: " + left_out.first_problem));
    }
    if (!first) first = item->at;
  }
}

bool BatchMaker::load(LeftOut& left_out) {
  while (!current_ || offset_ == size_of(*current_)) {
    const bool first = !current_;
    std::optional<VisitedItem> next = following_ ? std::exchange(following_, std::nullopt) : take();
    if (!next) return false;
    current_ = std::move(next);
    left_out.add(current_->left_out);
    offset_ = 0;
    if (first && start_.token > 0 && current_->at.epoch == start_.epoch &&
        current_->at.item == start_.item) {
      if (start_.token > size_of(*current_)) {
        throw FormatError(
            fmt::format("the run was at token {} of an item that has {}; give the data of the run",
                        start_.token, size_of(*current_)));
      }
      offset_ = start_.token;
    }
  }
  return true;
}

std::int32_t BatchMaker::target_behind_item() {
  if (current_->item.next != Item::kNextItem) return current_->item.next;
  if (!following_) following_ = take();
  return following_ ? target_of(following_->item.tokens.front()) : -1;
}

void BatchMaker::place(Batch& batch, std::int64_t at, std::int64_t count,
                       std::int32_t last_target) const {
  const std::int32_t* from = current_->item.tokens.data() + offset_;
  std::int32_t* tokens = batch.tokens.data() + at;
  std::int32_t* targets = batch.targets.data() + at;
  for (std::int64_t i = 0; i < count; ++i) tokens[i] = id_of(from[i]);
  for (std::int64_t i = 0; i + 1 < count; ++i) targets[i] = target_of(from[i + 1]);
  targets[count - 1] = last_target;
}

std::int64_t BatchMaker::fill_stream(Batch& batch, std::int64_t row) {
  std::int64_t at = 0;
  while (at < shape_.sequence && load(batch.left_out)) {
    const std::int64_t part = part_end(*current_, offset_);
    const std::int64_t end = std::min(offset_ + shape_.sequence - at, part);
    const std::int32_t last = end < part ? target_of(current_->item.tokens[to_size(end)])
                              : end < size_of(*current_) ? Item::kUnknown
                                                         : target_behind_item();
    place(batch, row * shape_.sequence + at, end - offset_, last);
    at += end - offset_;
    offset_ = end;
  }
  return at;
}

std::int64_t BatchMaker::fill_examples(Batch& batch, std::int64_t row) {
  std::int64_t at = 0;
  while (load(batch.left_out)) {
    // The last token predicts nothing, so it needs no place.
    const std::int64_t end = part_end(*current_, offset_);
    const std::int64_t size = end - offset_;
    const std::int64_t room = shape_.sequence - at;
    if (at > 0 && (packing_ == Packing::none || size - 1 > room)) break;
    const std::int64_t count = std::min(size, room);
    if (count > 0) {
      const std::int32_t last =
          count < size ? target_of(current_->item.tokens[to_size(offset_ + count)]) : -1;
      place(batch, row * shape_.sequence + at, count, last);
    }
    if (size - 1 > room) {
      ++batch.left_out.cut_examples;
      batch.left_out.cut_tokens += size - 1 - room;
    }
    at += count;
    offset_ = end;
  }
  return at;
}

std::optional<Batch> BatchMaker::next() {
  const auto count = to_size(shape_.tokens());
  Batch batch{.tokens = std::vector<std::int32_t>(count, padding_),
              .targets = std::vector<std::int32_t>(count, -1)};
  std::int64_t placed = 0;
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    placed += packing_ == Packing::stream ? fill_stream(batch, row) : fill_examples(batch, row);
  }
  if (placed == 0) return std::nullopt;
  batch.loss_tokens = std::ranges::count_if(batch.targets, [](std::int32_t t) { return t >= 0; });
  batch.position_after = position();
  return batch;
}

DataPosition BatchMaker::position() const {
  if (!current_) return start_;
  DataPosition at = current_->at;
  if (offset_ < size_of(*current_)) {
    at.token = offset_;
  } else {
    ++at.item;
  }
  return at;
}

}  // namespace ebb::text
