/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the assembler ptxas embed its input, which is PTX, in the cubins that it writes. nvcc and other programs start
 * ptxas as a child process, which also preloads this library. When ptxas ends, the simulator adds a section with the
 * PTX to the cubin.
 */
#include "sim/embedded_ptx/preload.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>

namespace {

/* The arguments of this process if it is ptxas, otherwise null. */
char **arguments = nullptr;

/* The output file of ptxas, and the file's state before ptxas writes it. */
const char *output = "elf.o";
struct stat before;

bool is_file(const char *path, struct stat &out) { return stat(path, &out) == 0 && S_ISREG(out.st_mode); }

/*
 * Returns the value of `option` if `argument` is this option: the text after "=", or the next argument. Otherwise
 * returns null.
 */
const char *value_of(const char *argument, const char *option, const char *next) {
  size_t size = std::strlen(option);
  if (std::strncmp(argument, option, size) != 0)
    return nullptr;
  return argument[size] == '=' ? argument + size + 1 : argument[size] == '\0' ? next : nullptr;
}

__attribute__((constructor)) void note_arguments(int, char **argv, char **) {
  if (std::strncmp(program_invocation_short_name, "ptxas", 5) != 0)
    return;
  arguments = argv + 1;
  constexpr const char *options[] = {"-o", "--output-file"};
  for (char **each = arguments; *each != nullptr; each++)
    for (const char *option : options)
      if (const char *value = value_of(*each, option, each[1]))
        output = value;
  if (stat(output, &before) != 0)
    before = {};
}

/*
 * Returns whether ptxas has written its output. If ptxas has failed, the output file is an older one or does not exist.
 */
bool is_written() {
  struct stat now{};
  return is_file(output, now) &&
         (now.st_ino != before.st_ino || now.st_dev != before.st_dev || now.st_size != before.st_size ||
          now.st_mtim.tv_sec != before.st_mtim.tv_sec || now.st_mtim.tv_nsec != before.st_mtim.tv_nsec);
}

__attribute__((destructor)) void embed_ptx() {
  if (arguments == nullptr || !is_written())
    return;
  using Keep = int (*)(const char *cubin, const char *const *files);
  void *simulator = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (simulator != nullptr)
    if (auto keep = sim::as_function<Keep>(sim::real_dlsym()(simulator, "cudasim_keep_ptx")))
      keep(output, const_cast<const char *const *>(arguments));
}

} // namespace
