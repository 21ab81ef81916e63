// GGUF files made for a test: bytes as the format has them, written without the parser's code.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ebb::files {

class MadeGguf {
 public:
  // The numbers that the format has for types of values.
  template <class T>
  static constexpr std::uint32_t number_of() {
    if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
    if constexpr (std::is_same_v<T, std::int8_t>) return 1;
    if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
    if constexpr (std::is_same_v<T, std::int16_t>) return 3;
    if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
    if constexpr (std::is_same_v<T, std::int32_t>) return 5;
    if constexpr (std::is_same_v<T, float>) return 6;
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, std::string>) return 8;
    if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
    if constexpr (std::is_same_v<T, std::int64_t>) return 11;
    if constexpr (std::is_same_v<T, double>) return 12;
  }

  template <class T>
  MadeGguf& value(std::string_view key, const T& value) {
    add_key(key, number_of<T>());
    put(keys_, value);
    return *this;
  }
  MadeGguf& value(std::string_view key, const char* text) { return value(key, std::string(text)); }

  template <class T>
  MadeGguf& list(std::string_view key, const std::vector<T>& items) {
    add_key(key, 9);
    put(keys_, number_of<T>());
    put(keys_, static_cast<std::uint64_t>(items.size()));
    for (const T& item : items) put(keys_, item);
    return *this;
  }

  // `sizes` as files have them: columns first. The offset is the next free one.
  MadeGguf& tensor(std::string_view name, std::uint32_t type,
                   const std::vector<std::uint64_t>& sizes, std::string_view bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensor_at(name, type, sizes, data_.size());
    data_ += bytes;
    return *this;
  }
  // Without data.
  MadeGguf& tensor_at(std::string_view name, std::uint32_t type,
                      const std::vector<std::uint64_t>& sizes, std::uint64_t offset) {
    ++tensor_count;
    put(tensors_, std::string(name));
    put(tensors_, static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) put(tensors_, size);
    put(tensors_, type);
    put(tensors_, offset);
    return *this;
  }
  MadeGguf& floats(std::string_view name, const std::vector<std::uint64_t>& sizes,
                   const std::vector<float>& values) {
    return tensor(name, 0, sizes,
                  {reinterpret_cast<const char*>(values.data()), 4 * values.size()});
  }

  std::string bytes() const {
    std::string all = "GGUF";
    put(all, version);
    put(all, tensor_count);
    put(all, key_count);
    all += keys_ + tensors_;
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data_;
  }

  // To be set to what is wrong.
  std::uint32_t version = 3;
  std::uint64_t tensor_count = 0;
  std::uint64_t key_count = 0;
  std::size_t alignment = 32;

 private:
  template <class T>
  static void put(std::string& to, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      put(to, static_cast<std::uint64_t>(value.size()));
      to += value;
    } else {
      to.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  void add_key(std::string_view key, std::uint32_t type) {
    ++key_count;
    put(keys_, std::string(key));
    put(keys_, type);
  }

  std::string keys_;
  std::string tensors_;
  std::string data_;
};

}  // namespace ebb::files
