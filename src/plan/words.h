// The plan room turns limits and a machine's profile into a program of tasks, gives every object of
// it an address, and predicts what a step costs. Numbers only: it knows no model, no device and no
// memory. The engine runs the very same program.
//
// The words all of it is written in:
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ebb/units.h"

namespace ebb::plan {

enum class Tier : std::uint8_t { device, host, disk };
inline constexpr std::array kTiers = {Tier::device, Tier::host, Tier::disk};

// A queue that runs its tasks in order, beside the other lanes.
enum class Lane : std::uint8_t { compute, up, down, host };
inline constexpr std::array kLanes = {Lane::compute, Lane::up, Lane::down, Lane::host};

// Where a chunk's state is updated.
enum class Site : std::uint8_t { resident, stream, host };

// What bytes are for, in tables that people read.
enum class Purpose : std::uint8_t { weights, states, gradients, activations, workspace, batch };
inline constexpr std::array kPurposes = {Purpose::weights,   Purpose::states,
                                         Purpose::gradients, Purpose::activations,
                                         Purpose::workspace, Purpose::batch};

std::string_view name_of(Tier);
std::string_view name_of(Lane);
std::string_view name_of(Site);
std::string_view name_of(Purpose);

// Every object starts at a multiple of this and is a multiple of it long, on every tier.
inline constexpr Bytes kAlignment = 256;
constexpr Bytes align_up(Bytes bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace ebb::plan
