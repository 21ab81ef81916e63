// say_bytes 1.5GiB: reads a quantity as Ebb's options do and prints it as Ebb's tables do.
#include <cstdio>

#include <ebb/error.h>
#include <ebb/units.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: say_bytes QUANTITY, such as 1.5GiB\n");
    return 2;
  }
  try {
    const ebb::Bytes bytes = ebb::parse_bytes(argv[1], "QUANTITY");
    std::printf("%s is %lld bytes, or %s\n", argv[1], static_cast<long long>(bytes),
                ebb::format_bytes(bytes).c_str());
  } catch (const ebb::ConfigError& error) {
    std::fprintf(stderr, "say_bytes: %s\n", error.what());
    return 1;
  }
}
