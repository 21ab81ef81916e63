#include "text/data/file_digests.h"

#include <sys/resource.h>

#include <algorithm>
#include <span>
#include <stop_token>
#include <string_view>

#include "base/to_size.h"

namespace ebb::text {
namespace {

constexpr Bytes kPieceBytes = kMiB;

}  // namespace

std::string digest_of(const std::vector<FileRecord>& records) {
  Digest digest;
  for (const FileRecord& record : records) {
    add_sized(digest, record.name);
    digest.add(std::as_bytes(std::span(&record.bytes, 1)));
    add_sized(digest, record.digest);
  }
  return digest.hex();
}

FileDigests::FileDigests(const DataSet& data)
    : data_(data), result_{.files = data.records(), .problem = {}} {
  for (const FileRecord& record : result_.files) {
    if (record.digest.empty()) total_ += record.bytes;
  }
  if (total_ == 0) return;
  buffer_.resize(std::min(kPieceBytes, total_));
  thread_ = std::jthread([this](const std::stop_token& stop) {
    // Of this thread alone, which 0 means here: a tenth of what those get that compute. That it may
    // not be lowered is no reason not to read.
    constexpr int nice = 10;
    (void)::setpriority(PRIO_PROCESS, 0, nice);
    while (!stop.stop_requested() && left()) advance();
  });
}

FileDigests::~FileDigests() = default;

bool FileDigests::left() {
  while (file_ < result_.files.size() && !result_.files[file_].digest.empty()) ++file_;
  return file_ < result_.files.size();
}

void FileDigests::advance() {
  const SourceFile& source = data_.source(file_);
  bool ended = true;
  try {
    const std::span<std::byte> piece(buffer_.data(),
                                     to_size(std::min(kPieceBytes, source.size() - at_)));
    source.read(at_, piece);
    digest_.add(piece);
    at_ += static_cast<Bytes>(piece.size());
    read_ += static_cast<Bytes>(piece.size());
    ended = at_ == source.size();
    if (ended) result_.files[file_].digest = digest_.hex();
  } catch (const std::exception& error) {
    if (result_.problem.empty()) result_.problem = error.what();
  }
  if (ended) {
    ++file_;
    at_ = 0;
    digest_ = Digest();
  }
}

void FileDigests::take_over() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

const FileDigests::Result* FileDigests::finish(const GoOn& go_on) {
  take_over();
  while (left()) {
    if (!go_on(read_, total_)) return nullptr;
    advance();
  }
  return &result_;
}

Bytes FileDigests::memory_bytes() const {
  constexpr std::size_t digits = 33;
  Bytes bytes = std::min(kPieceBytes, total_);
  for (const FileRecord& record : result_.files) {
    bytes += static_cast<Bytes>(sizeof record + record.name.size() + digits);
  }
  return bytes;
}

}  // namespace ebb::text
