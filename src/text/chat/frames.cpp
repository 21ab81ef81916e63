#include "text/chat/frames.h"

namespace ebb::text::jinja {

Hidden Frames::enter() {
  Frame frame;
  frame.parent = current_;
  frame.hidden = std::make_shared<std::vector<NameId>>();
  frames_.push_back(std::move(frame));
  current_ = frames_.size() - 1;
  return frames_.back().hidden;
}

bool Frames::is_known_around(std::size_t frame, NameId name) const {
  while (frame != 0) {
    frame = frames_[frame].parent;
    if (frames_[frame].assigned_first.contains(name)) return true;
  }
  return false;
}

void Frames::finish() {
  for (std::size_t i = 0; i < frames_.size(); ++i)
    for (const auto& [name, assigned_first] : frames_[i].assigned_first)
      if (assigned_first && !is_known_around(i, name)) frames_[i].hidden->push_back(name);
}

}  // namespace ebb::text::jinja
