// Reads a model from tokenizer.json and prepares what encoding looks up.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/in_quotes.h"
#include "base/list.h"
#include "ebb/error.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/model.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

// ["a", "b"] or "a b"; empty where it is neither.
std::pair<std::string_view, std::string_view> two_tokens(const SortedJson& item) {
  if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
    return {item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>()};
  }
  if (!item.is_string()) return {};
  const std::string_view text = item.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return {};
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (!begins_character(text[begin])) --begin;
  return text.substr(begin);
}

}  // namespace

Model::Model(const JsonPart& tokenizer, bool bytes) : bytes_(bytes) {
  const JsonPart part = tokenizer.at("model");
  place_ = part.place();
  // The oldest files do not say what they are.
  const std::string type = part.text_or("type", part.has("merges") ? "BPE" : "nameless");
  if (type != "BPE") {
    part.refuse(fmt::format("the model {} is not supported; BPE is", in_quotes(type)));
  }
  if (part.has("dropout") && part.at("dropout").json() != 0) {
    part.refuse("dropout is not supported: encodings would be random; set it to null");
  }
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string affix = part.text_or(option, "");
    if (!affix.empty())
      part.refuse(fmt::format("the {} {} is not supported", option, in_quotes(affix)));
  }
  byte_fallback_ = part.flag_or("byte_fallback", false);
  ignore_merges_ = part.flag_or("ignore_merges", false);
  fuse_unknown_ = part.flag_or("fuse_unk", false);
  read_vocabulary(part.at("vocab"));
  has_unknown_ = part.has("unk_token");
  if (has_unknown_) unknown_ = find(part.at("unk_token").text());
  read_alphabet();
  read_merges(part.at("merges"));
}

void Model::read_vocabulary(const JsonPart& part) {
  if (!part.json().is_object() || part.json().empty()) part.refuse("expected tokens and their ids");
  // Tables are as long as the largest id, so a file must not ask for more than it has tokens for.
  List<bool> taken(4 * part.json().size() + 65536);
  vocabulary_.reserve(part.json().size());
  for (const auto& [token, value] : part.json().items()) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= taken.size()) {
      part.refuse(
          fmt::format("the token {} has the id {}; with {} tokens, ids from 0 to {} are "
                      "accepted",
                      in_quotes(token), value.is_number() ? value.dump() : value.type_name(),
                      part.json().size(), taken.size() - 1));
    }
    const auto id = value.get<std::int32_t>();
    if (taken[id]) {
      part.refuse(fmt::format("the token {} has the id {} of another token", in_quotes(token), id));
    }
    taken[id] = true;
    vocabulary_.emplace(token, id);
  }
}

void Model::read_alphabet() {
  alphabet_.assign(bytes_ ? 256 : 0x10000, -1);
  if (bytes_) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      alphabet_[byte] = find(spell_bytes(std::string(1, static_cast<char>(byte))));
    }
  } else {
    for (const auto& [token, id] : vocabulary_) {
      std::size_t at = 0;
      if (token.empty() || character_bytes(token[0]) != token.size()) continue;
      const char32_t character = next_character(token, at);
      if (character < alphabet_.size()) alphabet_[character] = id;
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    fallback_[byte] = find(fmt::format("<0x{:02X}>", byte));
}

void Model::read_merges(const JsonPart& part) {
  const SortedJson& list = part.json();
  if (!list.is_array()) part.refuse("expected a list");
  if (list.size() >= Merge::kNone) part.refuse("too many merges");
  merges_ = MergeTable(list.size());
  std::vector<std::uint64_t> seams;
  bool can_cut = !ignore_merges_;  // else a part of a word is not encoded as if it were a word
  std::uint32_t rank = 0;
  const auto require = [&](std::string_view token) {
    const std::int32_t id = find(token);
    if (id < 0) {
      part.refuse(
          fmt::format("merge {} needs the token {}, which is not in the vocabulary; the file is "
                      "damaged or its vocabulary and merges come from different models",
                      rank, in_quotes(token)));
    }
    return id;
  };
  for (const SortedJson& item : list) {
    const auto [left, right] = two_tokens(item);
    if (left.empty() || right.empty()) part.refuse(fmt::format("merge {} is not two tokens", rank));
    const std::int32_t left_id = require(left);
    const std::int32_t right_id = require(right);
    const std::int32_t id = require(std::string(left).append(right));
    merges_.insert(left_id, right_id, {rank++, id});
    // A token that stands for a byte or for the unknown is not made of the characters it is spelled
    // with, so its seams cannot be told from its spelling.
    if (left.starts_with("<0x") || right.starts_with("<0x") || left_id == unknown_ ||
        right_id == unknown_) {
      can_cut = false;
    }
    if (can_cut) {
      const std::int32_t before = find(last_character(left));
      const std::int32_t behind = find(right.substr(0, character_bytes(right[0])));
      if (before >= 0 && behind >= 0) seams.push_back(seam_hash(before, behind));
    }
  }
  if (can_cut) keep_seams(seams);
}

void Model::keep_seams(std::vector<std::uint64_t>& seams) {
  std::ranges::sort(seams);
  seams.erase(std::unique(seams.begin(), seams.end()), seams.end());
  // Sixteen bits for each: one seam in sixteen that is none is taken for one, which costs a little
  // time and changes nothing.
  joined_.assign(std::bit_ceil(seams.size() / 4 + 1), 0);
  for (const std::uint64_t seam : seams) {
    const std::uint64_t bit = seam & (64 * joined_.size() - 1);
    joined_[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
}

}  // namespace ebb::text::bpe
