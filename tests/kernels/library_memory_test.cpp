// What oneDNN takes from the system by itself, measured over the products of a model: packed panels
// in each thread. Plans count library_bytes() for it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "heap_watch.h"
#include "kernels/cpu/cpu_ops.h"

namespace ebb::kernels {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

// The process's own pages that hold data. Code that oneDNN makes for each shape is in executable
// ones: outside of the limits, as all code is, and how much it is differs by processor.
Bytes data_pages() {
  std::ifstream maps("/proc/self/smaps");
  Bytes bytes = 0;
  bool executable = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.find('-') != std::string::npos && second.size() == 4) executable = second[2] == 'x';
    if (first == "Anonymous:" && !executable) bytes += std::stoll(second) * kKiB;
  }
  return bytes;
}

// Forward, and both gradients, of a block's products and of a head's.
std::vector<Shape> products_of(std::int64_t tokens, std::int64_t hidden, std::int64_t inner,
                               std::int64_t vocabulary) {
  return {{tokens, 3 * hidden, hidden}, {tokens, hidden, hidden},     {tokens, 2 * inner, hidden},
          {tokens, hidden, inner},      {tokens, vocabulary, hidden}, {tokens, hidden, 3 * hidden},
          {3 * hidden, hidden, tokens}, {2 * inner, hidden, tokens},  {hidden, inner, tokens},
          {vocabulary, hidden, tokens}};
}

TEST(LibraryMemory, OfOneDnnIsNoMoreThanIsCounted) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  // What the allocator keeps of freed memory is outside of the limits, and with a heap for each
  // thread that is up to twice as much as the library ever has at once: when threads run decides
  // it.
  mallopt(M_ARENA_MAX, 1);
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    CpuModelLibrary library(pool);
    for (const DType type : {DType::bf16, DType::f32}) {
      Bytes scratch = 0;
      std::vector<std::byte> a, b, c, workspace;
      const auto all = [&](ModelOps* ops) {
        for (const auto& [hidden, inner, vocabulary] :
             {Shape{128, 352, 512}, Shape{384, 1024, 2048}, Shape{768, 2048, 4096}}) {
          for (const auto& [m, n, k] : products_of(512, hidden, inner, vocabulary)) {
            for (const bool transpose : {false, true}) {
              const MatmulOptions options{.transpose_b = transpose};
              const auto bytes = [&](std::int64_t count) {
                return static_cast<std::size_t>(count * size_of(type));
              };
              a.resize(std::max(a.size(), bytes(m * k)));
              b.resize(std::max(b.size(), bytes(n * k)));
              c.resize(std::max(c.size(), bytes(m * n)));
              const View to{c.data(), type, m, n, n};
              const ConstView left{a.data(), type, m, k, k};
              const ConstView right = transpose ? ConstView{b.data(), type, n, k, k}
                                                : ConstView{b.data(), type, k, n, n};
              if (ops != nullptr) {
                ops->matmul(to, left, right, options);
              } else {
                scratch = std::max(scratch, library.matmul_scratch(to, left, right, options));
              }
            }
          }
        }
      };
      all(nullptr);
      workspace.resize(static_cast<std::size_t>(scratch));
      CpuOps ops(library, workspace);
      const Bytes before = data_pages();
      all(&ops);
      all(&ops);
      const Bytes taken = data_pages() - before;
      RecordProperty("bytes", std::to_string(taken));
      std::printf("%d threads, %d bytes an element: %lld taken, %lld counted\n", threads,
                  static_cast<int>(size_of(type)), static_cast<long long>(taken),
                  static_cast<long long>(library.library_bytes()));
      // What it keeps to know the shapes again: here those of three models.
      constexpr Bytes descriptions = 2 * kMiB;
      EXPECT_LE(taken, library.library_bytes() + descriptions) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
