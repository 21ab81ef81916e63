# What Ebb is built with. `make deps` installs the Debian packages; nothing is downloaded here.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(hwy REQUIRED)
if(EBB_PYTHON)
  return()
endif()
find_package(OpenMP REQUIRED)
find_package(CLI11 REQUIRED)
# Its headers alone are used: archives of Ebb need no more libraries.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
find_package(OneDNN REQUIRED)
find_package(Pcre2 REQUIRED)
find_package(Utf8proc REQUIRED)

# io_uring: without it the disk tier's transfers run on threads.
find_package(Uring QUIET)
set(EBB_HAS_URING OFF)
if(Uring_FOUND)
  set(EBB_HAS_URING ON)
endif()
message(STATUS "io_uring: ${EBB_HAS_URING}")
