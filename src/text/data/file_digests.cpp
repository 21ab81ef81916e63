#include "text/data/file_digests.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>

#include "base/digest.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

constexpr Bytes kPieceBytes = kMiB;

// The length first, so that no two lists of strings give the same bytes.
void add_sized(Digest& digest, std::string_view text) {
  const std::uint64_t size = text.size();
  digest.add(std::as_bytes(std::span(&size, 1)));
  digest.add(std::as_bytes(std::span(text)));
}

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
  if (total_ == 0) {
    done_ = true;
  } else {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
}

FileDigests::~FileDigests() = default;

void FileDigests::work(const std::stop_token& stop) {
  // Of this thread alone, which 0 means here: a tenth of what those get that compute. That it may
  // not be lowered is no reason not to read.
  constexpr int nice = 10;
  (void)::setpriority(PRIO_PROCESS, 0, nice);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kPieceBytes, total_)));
  for (std::size_t file = 0; file < result_.files.size(); ++file) {
    if (!result_.files[file].digest.empty()) continue;
    try {
      if (!digest(file, buffer, stop)) return;
    } catch (const std::exception& error) {
      if (result_.problem.empty()) result_.problem = error.what();
    }
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

bool FileDigests::digest(std::size_t file, std::vector<std::byte>& buffer,
                         const std::stop_token& stop) {
  const SourceFile& source = data_.source(file);
  Digest digest;
  for (Bytes at = 0; at < source.size(); at += kPieceBytes) {
    if (stop.stop_requested()) return false;
    const std::span<std::byte> piece(
        buffer.data(), static_cast<std::size_t>(std::min(kPieceBytes, source.size() - at)));
    source.read(at, piece);
    digest.add(piece);
    read_ += static_cast<Bytes>(piece.size());
  }
  result_.files[file].digest = digest.hex();
  return true;
}

const FileDigests::Result& FileDigests::wait(
    const std::function<void(Bytes done, Bytes total)>& progress) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) {
    lock.unlock();
    progress(read_, total_);
    lock.lock();
  }
  return result_;
}

bool FileDigests::wait_for(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; });
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
