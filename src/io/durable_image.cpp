#include "io/durable_image.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "io/text_file.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

constexpr DurableImage::Node kFolder = 0;

}  // namespace

DurableImage::DurableImage(FileSystem& files, fs::path folder)
    : folder_(folder.lexically_normal()) {
  read_folder(files, folder_, add(true));
}

DurableImage::Node DurableImage::add(bool is_folder) {
  entries_.push_back({.is_folder = is_folder, .content = {}, .now = {}, .durable = {}});
  return static_cast<Node>(entries_.size()) - 1;
}

void DurableImage::read_folder(FileSystem& files, const fs::path& path, Node node) {
  for (const fs::path& entry : files.list(path)) {
    const Node child = add(files.is_directory(entry));
    if (entries_[child].is_folder) {
      read_folder(files, entry, child);
    } else {
      entries_[child].content = read_text(files, entry, std::numeric_limits<Bytes>::max());
    }
    entries_[node].now[entry.filename().string()] = child;
  }
  entries_[node].durable = entries_[node].now;
}

DurableImage::Node DurableImage::find(const fs::path& path) const {
  const fs::path below = path.lexically_normal().lexically_relative(folder_);
  if (below.empty() || *below.begin() == "..") return kNone;
  Node node = kFolder;
  for (const fs::path& part : below) {
    if (part == "." || part.empty()) continue;
    const Names& names = entries_[node].now;
    const auto found = names.find(part.string());
    if (found == names.end()) return kNone;
    node = found->second;
  }
  return node;
}

void DurableImage::apply(const Edit& edit, Names& names) {
  if (edit.to == kNone) {
    names.erase(edit.name);
  } else {
    names[edit.name] = edit.to;
  }
}

void DurableImage::change(std::string what, std::vector<Edit> edits) {
  std::erase_if(edits, [](const Edit& edit) { return edit.folder == kNone; });
  if (edits.empty()) return;
  for (const Edit& edit : edits) {
    apply(edit, entries_[edit.folder].now);
  }
  pending_.push_back({std::move(what), std::move(edits)});
}

DurableImage::Node DurableImage::file_created(const fs::path& path) {
  const Node parent = find(parent_of(path));
  if (parent == kNone) return kNone;
  Node node = find(path);
  if (node == kNone) {
    node = add(false);
    change(fmt::format("create '{}'", path.string()), {{parent, path.filename().string(), node}});
  }
  written(node);
  return node;
}

void DurableImage::folder_made(const fs::path& path) {
  const Node parent = find(parent_of(path));
  if (parent == kNone) return;
  change(fmt::format("make the folder '{}'", path.string()),
         {{parent, path.filename().string(), add(true)}});
}

void DurableImage::renamed(const fs::path& from, const fs::path& to) {
  const Node node = find(from);
  change(fmt::format("rename '{}' to '{}'", from.string(), to.filename().string()),
         {{node == kNone ? kNone : find(parent_of(from)), from.filename().string(), kNone},
          {find(parent_of(to)), to.filename().string(), node}});
}

void DurableImage::removed(const fs::path& path) {
  if (find(path) == kNone) return;
  change(fmt::format("remove '{}'", path.string()),
         {{find(parent_of(path)), path.filename().string(), kNone}});
}

void DurableImage::written(Node file) {
  if (file != kNone) entries_[file].content.clear();
}

void DurableImage::synced(Node file, std::string content) {
  if (file != kNone) entries_[file].content = std::move(content);
}

void DurableImage::folder_synced(const fs::path& path) {
  const Node folder = find(path);
  std::erase_if(pending_, [&](const Change& change) {
    const bool touched = std::any_of(change.edits.begin(), change.edits.end(),
                                     [&](const Edit& edit) { return edit.folder == folder; });
    if (!touched) return false;
    for (const Edit& edit : change.edits) apply(edit, entries_[edit.folder].durable);
    return true;
  });
}

std::vector<std::string> DurableImage::pending() const {
  std::vector<std::string> all;
  for (const Change& change : pending_) all.push_back(change.what);
  return all;
}

void DurableImage::restore(FileSystem& files, FunctionRef<bool(std::size_t index)> lost) const {
  std::map<Node, Names> all;
  for (std::size_t node = 0; node < entries_.size(); ++node) {
    if (entries_[node].is_folder) all[static_cast<Node>(node)] = entries_[node].durable;
  }
  for (std::size_t index = 0; index < pending_.size(); ++index) {
    if (lost(index)) continue;
    for (const Edit& edit : pending_[index].edits) apply(edit, all.at(edit.folder));
  }
  for (const fs::path& entry : files.list(folder_)) files.remove_all(entry);
  write_folder(files, folder_, all.at(kFolder), all);
}

void DurableImage::write_folder(FileSystem& files, const fs::path& path, const Names& names,
                                const std::map<Node, Names>& all) const {
  for (const auto& [name, node] : names) {
    if (entries_[node].is_folder) {
      files.make_directory(path / name);
      write_folder(files, path / name, all.at(node), all);
    } else {
      files.create(path / name)->write(0, std::as_bytes(std::span(entries_[node].content)));
    }
  }
}

}  // namespace ebb::io
