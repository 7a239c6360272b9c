# CMake's CUDA language for device code, without a CUDA toolkit: cudacore-compile takes the place of nvcc.
# CMake would identify the compiler by a program of the host that it builds. This file states the results instead.
set(CMAKE_CUDA_COMPILER cudacore-compile)
set(CMAKE_CUDA_COMPILER_ID NVIDIA)
set(CMAKE_CUDA_COMPILER_ID_RUN TRUE)
set(CMAKE_CUDA_COMPILER_FORCED TRUE)
set(CMAKE_CUDA_COMPILER_VERSION 12.9)
set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CUDA_EXTENSIONS_COMPUTED_DEFAULT OFF)
# CMake reads from this how nvcc links programs of the host.
set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT "#\$ LIBRARIES= -L.\n#\$ c++ -o program -L.\n")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
