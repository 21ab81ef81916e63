// What a disk tier reads and writes, as lanes do it: direct, with checksums, past the drive's own
// cache.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "ebb/types.h"
#include "exec/disk_space.h"
#include "io/file_system.h"
#include "plan/profile.h"

namespace ebb::measure {

// Bytes a second.
struct DiskRates {
  double read = 0, write = 0;                // alone
  double read_beside = 0, write_beside = 0;  // both at once
  std::string queue;                         // how: "io_uring" or "threads"
};

// Writes all of the bytes that the folders may hold, then reads them, then half of each at once. A
// drive's cache takes the first writes: the last half counts. `tell` hears what comes next and the
// share that is behind.
DiskRates measure_disk(const std::vector<exec::DiskFolder>& folders,
                       const std::function<void(const std::string& now, double done)>& tell,
                       const std::function<void(const std::string&)>& note = {});

// What --disk of a measurement says: without bytes a usual number of them, or what there is.
std::vector<exec::DiskFolder> disks_to_measure(const std::vector<DiskFolder>& asked,
                                               io::FileSystem& files);

Json to_json(const DiskRates& rates);

// The rates in a profile, and what lanes of reading and of writing share.
void use_disk_rates(plan::Profile& profile, const DiskRates& rates);

}  // namespace ebb::measure
