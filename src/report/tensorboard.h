// Event files as TensorBoard reads them: a sequence of TFRecords (length, checksum, bytes,
// checksum), each an Event of TensorFlow's event.proto, of which only what a run needs is encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/log_line.h"

namespace ebb::report {

// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

std::string tf_record(std::string_view bytes);

// The first record of a file.
std::string events_header(double wall_seconds);
// From here on the file tells steps from `step` on: a reader forgets what earlier files of the
// folder say of those.
std::string restart_event(double wall_seconds, std::int64_t step);
// The numbers of a line, as scalars "train/loss", "validation/loss", "memory/device".
std::string scalars_event(double wall_seconds, const LogLine& line);

// "events.out.tfevents.1700000000.250000.HOST.PID.ebb": readers know such a file by its name, and
// take several in the order of their names.
std::string events_file_name(double wall_seconds, std::string_view host, std::int64_t process);

}  // namespace ebb::report
