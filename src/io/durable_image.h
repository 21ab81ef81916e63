// What a folder would hold after a loss of power: files as they were last synced, names as their
// folders were. It is told what happens in the folder and touches the disk only in restore().
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/list.h"
#include "io/file_system.h"

namespace ebb::io {

// A change of names (made, renamed, removed) is pending until a folder it touches is synced. Until
// then a loss of power may take it or leave it, whatever becomes of the changes before and after
// it: POSIX promises no order. A rename happens wholly or not at all.
//
// Holds the contents of all files, so it is for small folders, without links. Paths outside the
// folder are ignored. Not for several threads at once.
class DurableImage {
 public:
  using Node = int;  // a file or folder, whatever its name; kNone for one that is not known
  static constexpr Node kNone = -1;

  // What is in the folder now is taken to be durable.
  DurableImage(FileSystem& files, std::filesystem::path folder);

  Node find(const std::filesystem::path& path) const;

  Node file_created(const std::filesystem::path& path);  // also where one was cut to nothing
  void folder_made(const std::filesystem::path& path);
  void renamed(const std::filesystem::path& from, const std::filesystem::path& to);
  void removed(const std::filesystem::path& path);  // with all that is in it
  void written(Node file);
  void synced(Node file, std::string content);
  void folder_synced(const std::filesystem::path& path);

  // In the order in which they were made, for people.
  std::vector<std::string> pending() const;

  // Makes the folder on disk what the image says: files with writes since their last sync are
  // empty, pending changes are there unless lost(index) says otherwise. May be called again, with
  // other losses, whatever was done to the folder in between.
  void restore(FileSystem& files, FunctionRef<bool(std::size_t index)> lost) const;

 private:
  using Names = std::map<std::string, Node>;
  struct Entry {
    bool is_folder = false;
    std::string content;  // as last synced; empty where something was written since
    Names now;
    Names durable;
  };
  struct Edit {
    Node folder = kNone;
    std::string name;
    Node to = kNone;  // kNone: the name goes
  };
  struct Change {
    std::string what;  // for people
    std::vector<Edit> edits;
  };

  Node add(bool is_folder);
  static void apply(const Edit& edit, Names& names);
  void read_folder(FileSystem& files, const std::filesystem::path& path, Node node);
  void change(std::string what, std::vector<Edit> edits);
  void write_folder(FileSystem& files, const std::filesystem::path& path, const Names& names,
                    const std::map<Node, Names>& all) const;

  std::filesystem::path folder_;
  List<Entry> entries_;  // by node; the folder itself first
  std::vector<Change> pending_;
};

}  // namespace ebb::io
