/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_IMAGE_H
#define CUDACORE_SIM_DRIVER_CODE_IMAGE_H

#include "sim/embedded_ptx/cubin_section.h"
#include "sim/engine.h"
#include "sim/driver/base/api.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

/*
 * The code that the application loaded: the PTX itself, or a cubin that the PTX was compiled to. The simulator runs the
 * PTX in both cases.
 */
enum class PtxOrigin { text, cubin };

/*
 * Code that was given to the driver: PTX, a cubin, or a fat binary with either. The bytes are kept, and parsed when
 * they are first needed, because libraries are loaded lazily.
 */
class Image {
public:
  /* Copies the bytes. Null: the bytes cannot be code. Their type is determined later. */
  static std::shared_ptr<Image> copy(const void *code);
  static std::shared_ptr<Image> take(std::vector<char> bytes);

  /* Sets the limit of CU_JIT_MAX_REGISTERS, which directives of kernels replace. Must be called before prepare(). */
  void limit_registers(unsigned limit) { max_registers = limit; }

  /* Whether the bytes begin like code. Other bytes are refused without parsing the rest. */
  bool is_code() const;

  /* Parses and compiles the bytes, once. Parsing takes long, so call this function without the state's lock. */
  CUresult prepare();

  /* Valid after prepare() has returned CUDA_SUCCESS. */
  const std::vector<KernelInfo> &kernels() const { return kernel_infos; }
  const std::vector<Variable> &variables() const { return variable_infos; }
  const std::shared_ptr<const Module> &module() const { return compiled; } /* null: a cubin that cannot run */
  int ptx_version() const { return ptx; }       /* the capability that the PTX or the cubin is for: 90 for 9.0 */
  int binary_version() const { return binary; } /* the capability that the code runs as: 90 for 9.0 */

  const std::string &log() const { return messages; } /* why prepare() failed, or why a cubin cannot run */
  bool lacks_ptx() const { return no_ptx; }           /* whether a cubin cannot run because it carries no PTX */

private:
  CUresult understand();
  CUresult read_ptx(std::vector<PtxText> texts);
  CUresult read_cubin(const char *data, size_t size);
  CUresult run_embedded(const char *data, size_t size);

  std::vector<char> bytes;
  std::once_flag once;
  CUresult result = CUDA_SUCCESS;
  std::string messages;
  PtxOrigin origin = PtxOrigin::text;
  std::shared_ptr<const Module> compiled;
  bool lacks_instruction = false; /* the PTX has an instruction that is not simulated */
  bool no_ptx = false;
  unsigned max_registers = 0; /* 0: no limit */
  std::vector<KernelInfo> kernel_infos;
  std::vector<Variable> variable_infos;
  int ptx = 0, binary = 0;
};

/*
 * Extracts the code that the device would use from a fat binary: PTX, or a cubin with PTX. If there is none, the
 * messages say why. `beside_cubin`: there is also a cubin for the device, which a GPU would run instead.
 */
CUresult unpack_fat_binary(const std::vector<char> &bytes, std::vector<char> &code, std::string &messages,
                           bool *beside_cubin = nullptr);

/* Appends the PTX of some code to `found`. `lacking`: the names of the inputs that have no PTX. */
void find_ptx(const std::string &name, std::vector<char> code, std::vector<PtxText> &found, std::string &lacking);

/* Appends a directive that limits the registers of those kernels whose own directives do not limit them. */
void limit_registers(std::string &ptx, unsigned limit);

/* The PTX that replaces libcudadevrt.a, for an input with that name. */
bool is_device_runtime(const std::string &name);
PtxText device_runtime();

/* Reads the sections of a cubin. False: it is not a cubin, or damaged. */
bool read_elf(const char *data, size_t size, std::vector<KernelInfo> &kernels, std::vector<Variable> &variables,
              int &capability);

/* The size of an ELF file: the end of the last part to which its header points. 0: it is not an ELF file. */
size_t elf_size(const char *data, size_t readable);

/* Unpacks an LZ4 block to exactly out.size() bytes. */
bool unpack_lz4(const char *data, size_t size, std::vector<char> &out);

/* Unpacks a Zstandard frame to exactly out.size() bytes, with the system's libzstd.so.1 if it exists. */
bool has_zstd();
bool unpack_zstd(const char *data, size_t size, std::vector<char> &out);

} // namespace sim

#endif
