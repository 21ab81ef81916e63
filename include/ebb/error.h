// The errors Ebb throws. Their text says where, what was expected, what was found and what to do;
// what a program may want to act on, they carry beside it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ebb/units.h"

namespace ebb {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A tier that is too small for the work.
struct Shortfall {
  std::string tier;  // as plans and summaries name it: "device", "host", "disk"
  Bytes needed = 0;
  Bytes limit = 0;

  Bytes missing() const { return needed > limit ? needed - limit : 0; }
};

// The work does not fit the limits of a tier. Thrown before anything starts.
class OutOfBudget : public Error {
 public:
  using Error::Error;
  OutOfBudget(const std::string& text, std::vector<Shortfall> shortfalls,
              std::vector<std::string> remedies = {})
      : Error(text), shortfalls_(std::move(shortfalls)), remedies_(std::move(remedies)) {}

  // The tiers that are too small; none where it is not bytes that are missing.
  const std::vector<Shortfall>& shortfalls() const { return shortfalls_; }
  // What would help, for people: a line each, the likeliest first.
  const std::vector<std::string>& remedies() const { return remedies_; }

 private:
  std::vector<Shortfall> shortfalls_;
  std::vector<std::string> remedies_;
};

// A device, its driver or a library that computes on it failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// The operating system refused or cut short an operation on a file.
class IoError : public Error {
 public:
  using Error::Error;
  IoError(const std::string& text, std::string path, std::optional<Bytes> offset = std::nullopt)
      : Error(text), path_(std::move(path)), offset_(offset) {}

  // The file or folder; empty where none is known.
  const std::string& path() const { return path_; }
  // Where in the file a transfer failed.
  std::optional<Bytes> offset() const { return offset_; }

 private:
  std::string path_;
  std::optional<Bytes> offset_;
};

// A file's content is not what its format promises.
class FormatError : public Error {
 public:
  using Error::Error;
};

// An option or a configuration is wrong, or options contradict each other.
class ConfigError : public Error {
 public:
  // A text that is about an option begins with its flag, as people know it from the command line:
  // "--states 'moon': expected ...". Fields of the option structs are named as the flags.
  explicit ConfigError(const std::string& text);

  // "--states"; empty where the text does not begin with one.
  const std::string& flag() const { return flag_; }

 private:
  std::string flag_;
};

// The numbers went wrong: a gradient or a weight is not finite.
class NumericsError : public Error {
 public:
  using Error::Error;
};

// What a std::stop_token asked for, before there was anything to save or to return.
class Cancelled : public Error {
 public:
  using Error::Error;
};

}  // namespace ebb
