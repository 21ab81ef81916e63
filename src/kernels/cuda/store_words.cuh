// Stores that stay whole. The compiler takes structs apart, and may store their words one by one:
// each lane of a warp then leaves gaps that the next store fills.
#pragma once

namespace ebb::kernels {

// To global memory, in one access of 8 or 16 bytes, on whose boundary `to` lies.
template <int N>
__device__ void store_words(void* to, const unsigned (&words)[N]) {
  static_assert(N == 2 || N == 4);
  const auto address = __cvta_generic_to_global(to);
  if constexpr (N == 2) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                 :
                 : "l"(address), "r"(words[0]), "r"(words[1])
                 : "memory");
  } else {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

}  // namespace ebb::kernels
