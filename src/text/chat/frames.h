// Which names a template hides before it assigns them. Jinja decides when it reads the template
// where a name comes from: one that a frame assigns, and did not read before, is never looked up
// in what the caller gave, so loops and macros that run before the assignment see it undefined.
#pragma once

#include <map>
#include <memory>
#include <vector>

namespace ebb::text::jinja {

// Names of variables are numbered, so that looking one up compares numbers.
using NameId = int;
// The names that a frame hides when it begins.
using Hidden = std::shared_ptr<const std::vector<NameId>>;

// Follows the parser. A frame is the template, the body of a loop, a macro or a block.
class Frames {
 public:
  // `hidden` of the frame is filled by finish().
  Hidden enter();
  void leave() { current_ = frames_[current_].parent; }
  // Parts of an 'if': what is assigned there may not be.
  void enter_branch() { ++frames_[current_].branches; }
  void leave_branch() { --frames_[current_].branches; }

  void read(NameId name) { mention(name, false); }
  void assign(NameId name) { mention(name, frames_[current_].branches == 0); }
  // Given to the frame from outside: a parameter, what a loop visits.
  void receive(NameId name) { mention(name, false); }

  void finish();

 private:
  struct Frame {
    std::size_t parent = 0;
    int branches = 0;
    std::map<NameId, bool> assigned_first;
    std::shared_ptr<std::vector<NameId>> hidden;
  };

  void mention(NameId name, bool assigned) {
    frames_[current_].assigned_first.try_emplace(name, assigned);
  }
  bool is_known_around(std::size_t frame, NameId name) const;

  std::vector<Frame> frames_;
  std::size_t current_ = 0;
};

}  // namespace ebb::text::jinja
