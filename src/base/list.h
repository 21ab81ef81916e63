// A vector whose indices and sizes may be signed, as all of Ebb's counts and ids are: no cast
// stands between an id and what it names. An index that is negative or too large is undefined, as a
// vector's is. Everything else is std::vector's, to and from which it converts.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace ebb {

template <class T>
class List : public std::vector<T> {
  using Vector = std::vector<T>;

 public:
  List() = default;
  List(std::initializer_list<T> items) : Vector(items) {}
  List(const Vector& items) : Vector(items) {}                 // NOLINT: it is the same thing
  List(Vector&& items) noexcept : Vector(std::move(items)) {}  // NOLINT
  explicit List(std::integral auto count) : Vector(static_cast<std::size_t>(count)) {}
  List(std::integral auto count, const T& item) : Vector(static_cast<std::size_t>(count), item) {}
  template <std::input_iterator Iterator>
  List(Iterator begin, Iterator end) : Vector(begin, end) {}

  decltype(auto) operator[](std::integral auto index) {
    return Vector::operator[](static_cast<std::size_t>(index));
  }
  decltype(auto) operator[](std::integral auto index) const {
    return Vector::operator[](static_cast<std::size_t>(index));
  }

  // How many there are, as a number that can be compared with ids.
  std::int64_t count() const { return static_cast<std::int64_t>(Vector::size()); }
  void resize(std::integral auto count) { Vector::resize(static_cast<std::size_t>(count)); }
  void resize(std::integral auto count, const T& item) {
    Vector::resize(static_cast<std::size_t>(count), item);
  }
  void reserve(std::integral auto count) { Vector::reserve(static_cast<std::size_t>(count)); }
  using Vector::assign;
  void assign(std::integral auto count, const T& item) {
    Vector::assign(static_cast<std::size_t>(count), item);
  }
};

}  // namespace ebb
