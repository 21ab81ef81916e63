# NVIDIA GPUs: EBB_CUDA is ON, OFF, or AUTO for ON where CUDA's compiler and cuDNN 9 are found.
# EBB_HAS_CUDA is what came of it. A program built with CUDA starts on machines without a driver.
set(EBB_CUDA AUTO CACHE STRING "Build for NVIDIA GPUs: ON, OFF or AUTO")
set_property(CACHE EBB_CUDA PROPERTY STRINGS AUTO ON OFF)
set(EBB_HAS_CUDA OFF)

if(EBB_CUDA STREQUAL "AUTO" OR EBB_CUDA)
  find_package(CUDAToolkit 12.5 QUIET)
  find_package(CUDNN 9 QUIET)
  if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  # The optimizer as a library needs no cuDNN; without it the Python package has that alone.
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND (CUDNN_FOUND OR EBB_PYTHON))
    set(EBB_HAS_CUDA ON)
    if(NOT CUDNN_FOUND)
      message(STATUS "The package has the optimizer alone: cuDNN 9 was not found, and EBB_CUDA is not OFF")
      set(EBB_HAS_ENGINE OFF)
    endif()
  elseif(NOT EBB_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "EBB_CUDA is ${EBB_CUDA}, but not all of it was found: the CUDA toolkit "
      "(${CUDAToolkit_VERSION}), nvcc (${CMAKE_CUDA_COMPILER}) and cuDNN 9 (${CUDNN_LIBRARY}). "
      "Set CUDAToolkit_ROOT and CUDNN_ROOT, or EBB_CUDA=OFF.")
  endif()
endif()
message(STATUS "NVIDIA GPUs: ${EBB_HAS_CUDA}")

# cuDNN's C++ front end: headers only, from PyPI (`make deps` puts them there). Without it attention
# runs on Ebb's own kernels.
set(EBB_HAS_CUDNN_FRONTEND OFF)
if(EBB_HAS_CUDA)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS ${CMAKE_SOURCE_DIR}/build/deps/cudnn-frontend/include)
  if(CUDNN_FRONTEND_INCLUDE_DIR)
    set(EBB_HAS_CUDNN_FRONTEND ON)
  endif()
  message(STATUS "cuDNN's front end: ${EBB_HAS_CUDNN_FRONTEND}")
endif()

# CUTLASS: headers only, from PyPI likewise. Without it activations are passes of their own.
set(EBB_HAS_CUTLASS OFF)
if(EBB_HAS_CUDA)
  find_path(CUTLASS_INCLUDE_DIR cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp
            HINTS ${CMAKE_SOURCE_DIR}/build/deps/cutlass/include)
  if(CUTLASS_INCLUDE_DIR)
    set(EBB_HAS_CUTLASS ON)
  endif()
  message(STATUS "CUTLASS: ${EBB_HAS_CUTLASS}")
endif()

if(EBB_HAS_CUDA)
  # Hopper's machine code, and PTX for what comes later.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  # Older CMakes (3.25.1 is one) do not know yet how nvcc spells it.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
endif()
