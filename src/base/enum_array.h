// One value for each of an enum's, which number from 0 without gaps.
#pragma once

#include <array>
#include <cstddef>

namespace ebb {

template <class Enum, class T, std::size_t kCount>
struct EnumArray : std::array<T, kCount> {
  constexpr T& operator[](Enum of) {
    return std::array<T, kCount>::operator[](static_cast<std::size_t>(of));
  }
  constexpr const T& operator[](Enum of) const {
    return std::array<T, kCount>::operator[](static_cast<std::size_t>(of));
  }
};

}  // namespace ebb
