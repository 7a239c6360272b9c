/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_IMAGE_H
#define CUDACORE_SIM_DRIVER_CODE_IMAGE_H

#include "sim/carry/carried.h"
#include "sim/engine.h"
#include "sim/driver/base/api.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

/* What PTX stands for: itself, or a cubin that was made of it and that a GPU would run in its place. */
enum class PtxOrigin { text, cubin };

/*
 * Code as it was given to the driver: PTX, a cubin, or a fat binary with either. It is kept as bytes and understood
 * when it is first needed, as libraries are loaded lazily.
 */
class Image {
public:
  /* Copies the bytes. Null: nothing there that could be code; what the bytes are is found out later. */
  static std::shared_ptr<Image> copy(const void *code);
  static std::shared_ptr<Image> take(std::vector<char> bytes);

  /* Whether they begin as code does; what does not is refused without a look at the rest. */
  bool is_code() const;

  /* Understands the bytes, once; long-running, so without the state's lock. */
  CUresult prepare();

  /* After prepare() has returned CUDA_SUCCESS. */
  const std::vector<KernelInfo> &kernels() const { return kernel_infos; }
  const std::vector<Variable> &variables() const { return variable_infos; }
  const std::shared_ptr<const Module> &module() const { return compiled; } /* null: a cubin that cannot run */
  int ptx_version() const { return ptx; }       /* 90 for 9.0; of a cubin the target's capability, as the driver says */
  int binary_version() const { return binary; } /* the capability that it runs as: 90 for 9.0 */

  const std::string &log() const { return messages; } /* why prepare() failed, or why a cubin cannot run */

private:
  CUresult understand();
  CUresult read_ptx(const std::vector<PtxText> &texts);
  CUresult read_cubin(const char *data, size_t size);
  CUresult run_carried(const char *data, size_t size);

  std::vector<char> bytes;
  std::once_flag once;
  CUresult result = CUDA_SUCCESS;
  std::string messages;
  PtxOrigin origin = PtxOrigin::text;
  std::shared_ptr<const Module> compiled;
  bool lacks_instruction = false; /* the simulator does, of the PTX's */
  std::vector<KernelInfo> kernel_infos;
  std::vector<Variable> variable_infos;
  int ptx = 0, binary = 0;
};

/*
 * The code in a fat binary that the device would take, of PTX and cubins with PTX; else why there is none.
 * `beside_cubin` becomes true where there is a cubin for the device, which a GPU would run rather than the PTX.
 */
CUresult unpack_fat_binary(const std::vector<char> &bytes, std::vector<char> &code, std::string &messages,
                           bool *beside_cubin = nullptr);

bool starts_as_ptx(std::string_view text);

/* Collects the PTX that code is or carries; names what there is none of. */
void find_ptx(const std::string &name, std::vector<char> code, std::vector<PtxText> &found, std::string &lacking);

/* The PTX that stands for libcudadevrt.a, which a part of that name is. */
bool is_device_runtime(const std::string &name);
PtxText device_runtime();

bool read_file(const char *name, std::vector<char> &out);

/* What a cubin's sections say. False: it is none, or broken. */
bool read_elf(const char *data, size_t size, std::vector<KernelInfo> &kernels, std::vector<Variable> &variables,
              int &capability);

/* Bytes from the start of an ELF file to the end of what its header points to; 0: no ELF file. */
size_t elf_size(const char *data, size_t readable);

/* Unpacks an LZ4 block to exactly out.size() bytes. */
bool unpack_lz4(const char *data, size_t size, std::vector<char> &out);

/* The same of a Zstandard frame, by the system's libzstd.so.1, where there is one. */
bool has_zstd();
bool unpack_zstd(const char *data, size_t size, std::vector<char> &out);

} // namespace sim

#endif
