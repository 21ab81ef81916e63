// The fields of a config.json, read with errors that name the file and the field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace ebb::model {

// Borrows both. A field that is null counts as absent.
class Fields {
 public:
  // Throws FormatError if `json` is no object.
  Fields(const Json& json, std::string_view where);

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  bool is_null(const char* key) const { return json_.contains(key) && json_.at(key).is_null(); }

  // Throw FormatError if the field has another type, or is absent and has no other value.
  std::int64_t integer(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double number(const char* key) const;
  double number(const char* key, double otherwise) const;
  bool boolean(const char* key, bool otherwise) const;
  std::string string(const char* key, std::string otherwise) const;
  const Json* object(const char* key) const;  // null where there is none
  const Json* array(const char* key) const;

  std::string_view where() const { return where_; }
  // Throws ConfigError: the model is sound, but not one that Ebb computes.
  [[noreturn]] void refuse(std::string_view what) const;
  void refuse_if(const char* key) const;  // a boolean that should not be set

 private:
  const Json& at(const char* key) const;
  [[noreturn]] void wrong(const char* key, std::string_view expected) const;

  const Json& json_;
  std::string_view where_;
};

}  // namespace ebb::model
