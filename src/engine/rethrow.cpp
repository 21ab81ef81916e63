#include "engine/rethrow.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::engine {

void rethrow_with(const std::exception_ptr& failure, const std::string& more) {
  const auto text = [&](const std::exception& error) {
    return fmt::format("{}\n{}", error.what(), more);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const OutOfBudget& error) {
    throw OutOfBudget(text(error), error.shortfalls(), error.remedies());
  } catch (const Cancelled& error) {
    throw Cancelled(text(error));
  } catch (const NumericsError& error) {
    throw NumericsError(text(error));
  } catch (const DeviceError& error) {
    throw DeviceError(text(error));
  } catch (const IoError& error) {
    throw IoError(text(error), error.path(), error.offset());
  } catch (const FormatError& error) {
    throw FormatError(text(error));
  } catch (const ConfigError& error) {
    throw ConfigError(text(error));
  } catch (const std::exception& error) {
    throw Error(text(error));
  }
}

}  // namespace ebb::engine
