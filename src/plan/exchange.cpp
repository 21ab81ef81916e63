#include "plan/exchange.h"

#include <algorithm>

namespace ebb::plan {

List<PlaneMessage> plane_messages(const Workload& work, const List<Chunk>& all,
                                  const List<int>& chunks, std::int64_t begin, std::int64_t round) {
  const Ranks& ranks = work.ranks;
  const int senders = ranks.senders(round);
  List<PlaneMessage> messages;
  Bytes arrived = 0;
  for (const int c : chunks) {
    const Chunk& chunk = all[c];
    const Bytes bytes = chunk.count * work.plane_bytes();
    if (chunk.owner != ranks.rank) {
      if (ranks.rank >= senders) continue;
      messages.push_back({.peer = chunk.owner,
                          .comes = false,
                          .chunk = c,
                          .range = {(chunk.first - begin) * work.plane_bytes(), bytes}});
      continue;
    }
    for (int peer = 0; peer < senders; ++peer) {
      if (peer == ranks.rank) continue;
      messages.push_back({.peer = peer, .comes = true, .chunk = c, .range = {arrived, bytes}});
      arrived += align_up(bytes);
    }
  }
  return messages;
}

Bytes incoming_bytes(const List<PlaneMessage>& messages) {
  Bytes end = 0;
  for (const PlaneMessage& message : messages) {
    if (message.comes) end = std::max(end, message.range.first + message.range.bytes);
  }
  return end;
}

Range incoming_of(const List<PlaneMessage>& messages, int chunk) {
  Range all{0, 0};
  for (const PlaneMessage& message : messages) {
    if (!message.comes || message.chunk != chunk) continue;
    if (all.bytes == 0) all.first = message.range.first;
    all.bytes = message.range.first + message.range.bytes - all.first;
  }
  return all;
}

Bytes moved_bytes(const List<PlaneMessage>& messages) {
  Bytes out = 0, in = 0;
  for (const PlaneMessage& message : messages) (message.comes ? in : out) += message.range.bytes;
  return std::max(out, in);
}

}  // namespace ebb::plan
