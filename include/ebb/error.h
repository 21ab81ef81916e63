// The errors Ebb throws. Their text says where, what was expected, what was found and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace ebb {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The work does not fit the limits of a tier. Thrown before anything starts.
class OutOfBudget : public Error {
 public:
  using Error::Error;
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
};

// A file's content is not what its format promises.
class FormatError : public Error {
 public:
  using Error::Error;
};

// An option or a configuration is wrong, or options contradict each other.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// The numbers went wrong: a gradient or a weight is not finite.
class NumericsError : public Error {
 public:
  using Error::Error;
};

}  // namespace ebb
