#include "plan/lower_bound.h"

#include <algorithm>
#include <limits>

namespace ebb::plan {
namespace {

// Bytes that summing the gradients of all micro-batches moves, for each parameter.
double sum_traffic(const Workload& work) {
  if (work.ranks.grouped()) return 0;
  const std::int64_t last = work.micro_batches - 1;
  double bytes = static_cast<double>(work.sum_traffic(last));
  if (last > 1) bytes += static_cast<double>(work.sum_traffic(1));
  if (last > 2) bytes += static_cast<double>((last - 2) * work.sum_traffic(2));
  return bytes;
}

}  // namespace

LowerBound::LowerBound(const Workload& work, const Profile& profile)
    : work_(work), profile_(profile) {
  Cost all;
  state_ = weight_ = std::numeric_limits<double>::infinity();
  for (const Block& block : work.blocks) {
    all += block.forward;
    all += block.backward;
    if (block.parameters == 0) continue;
    const auto least = [&](const Planes& planes) {
      return static_cast<double>(planes.bytes(block.parameters)) /
             static_cast<double>(block.parameters);
    };
    state_ = std::min(state_, least(block.states));
    weight_ = std::min(weight_, least(block.weights));
  }
  passes_ = static_cast<double>(work.micro_batches);
  parameters_ = static_cast<double>(work.parameters());
  model_seconds_ = passes_ * seconds(all);
  const auto gradient = static_cast<double>(work.gradient_bytes);
  Cost device;
  device.bytes = parameters_ * (2 * (state_ + weight_) + gradient + sum_traffic(work));
  device_seconds_ = seconds(device);
}

double LowerBound::operator()(const Choices& choices) const {
  const double streamed = (choices.offload_fraction - choices.host_fraction) * parameters_ * state_;
  const double by_host = choices.host_fraction * parameters_;
  const auto gradient = static_cast<double>(work_.gradient_bytes);
  const double inputs = static_cast<double>(choices.host_inputs * work_.input) * passes_;
  Cost again;
  Cost spared;
  const List<int> layers = work_.all_of(BlockKind::layer);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Block& block = work_.blocks[layers[i]];
    const auto layer = static_cast<std::int64_t>(i);
    if (layer < choices.recompute_blocks) {
      again += block.recompute;
      again += block.mlp_again;
    }
    if (layer >= work_.layers() - choices.cheap_saved_blocks) spared += block.cheap_recompute;
  }
  double weights = 0;  // of layers, which come up twice a pass
  if (choices.streamed_weights > 0) {
    const List<Tier> homes = weight_homes(work_, choices);
    for (const int b : layers) {
      const Block& block = work_.blocks[b];
      if (homes[b] != Tier::device) {
        weights += 2 * passes_ * static_cast<double>(block.weights.bytes(block.parameters));
      }
    }
  }
  const double updated = choices.streamed_weights > 0 ? 0 : by_host * weight_;
  const double up = (streamed + updated + weights + inputs) / profile_.up_bytes_per_second;
  const double down =
      (streamed + by_host * gradient * passes_ + inputs) / profile_.down_bytes_per_second;
  const double host =
      by_host * (2 * (state_ + weight_) + gradient) / profile_.host_bytes_per_second;
  const double compute = model_seconds_ + passes_ * (seconds(again) - seconds(spared)) +
                         (1 - choices.host_fraction) * device_seconds_;
  // Of several ranks each has a share of the updates alone, and other sums.
  if (work_.ranks.grouped()) return model_seconds_ + passes_ * (seconds(again) - seconds(spared));
  return std::max({compute, up, down, host});
}

double LowerBound::seconds(const Cost& cost) const {
  double sum = 0;
  for (const ProfileField& field : profile_fields()) sum += seconds_of(cost, field, profile_);
  return sum;
}

}  // namespace ebb::plan
