/* SPDX-License-Identifier: Apache-2.0 */
/* What a cache of compiled code asks the system for at each hit: the states of thousands of files, in one call. */
#define _GNU_SOURCE
#include "base/native.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The state of a file or directory. All fields are 0 if it does not exist; `mode` is negative after an error. */
typedef struct file_state {
  int64_t device, inode, mode, size, mtime_ns, ctime_ns;
} file_state;

static int64_t nanoseconds(const struct timespec *time) { return time->tv_sec * INT64_C(1000000000) + time->tv_nsec; }

static int64_t failed(int error) { return error == ENOENT || error == ENOTDIR ? 0 : -error; }

static file_state state_of(int directory, const char *name) {
  struct stat found;
  if (directory < 0)
    return (file_state){.mode = failed(-directory)};
  if (fstatat(directory, name, &found, 0) != 0)
    return (file_state){.mode = failed(errno)};
  return (file_state){
      .device = (int64_t)found.st_dev,
      .inode = (int64_t)found.st_ino,
      .mode = found.st_mode,
      .size = found.st_size,
      .mtime_ns = nanoseconds(&found.st_mtim),
      .ctime_ns = nanoseconds(&found.st_ctim),
  };
}

static int open_directory(const char *path) {
  int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return directory >= 0 ? directory : -errno;
}

/* The names of a directory are looked up relative to it, because the kernel then walks each long path only once. */
static void look_up(char *out, const char *groups, const char *end) {
  for (; groups < end; groups++) {
    int directory = open_directory(groups);
    for (groups += strlen(groups) + 1; groups < end && *groups != '\0'; groups += strlen(groups) + 1) {
      file_state state = state_of(directory, groups);
      memcpy(out, &state, sizeof state);
      out += sizeof state;
    }
    if (directory >= 0)
      close(directory);
  }
}

static Py_ssize_t count_names(const char *groups, const char *end) {
  Py_ssize_t count = 0;
  for (; groups < end; groups++)
    for (groups += strlen(groups) + 1; groups < end && *groups != '\0'; groups += strlen(groups) + 1)
      count++;
  return count;
}

static PyObject *file_states(PyObject *module, PyObject *groups) {
  (void)module;
  char *start;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(groups, &start, &size) < 0) /* the bytes end with a NUL that does not count */
    return NULL;
  PyObject *result = PyBytes_FromStringAndSize(NULL, count_names(start, start + size) * (Py_ssize_t)sizeof(file_state));
  if (result == NULL)
    return NULL;
  char *out = PyBytes_AsString(result);
  Py_BEGIN_ALLOW_THREADS;
  look_up(out, start, start + size);
  Py_END_ALLOW_THREADS;
  return result;
}

static int copy_loads(struct dl_phdr_info *info, size_t size, void *out) {
  (void)size;
  *(unsigned long long *)out = info->dlpi_adds;
  return 1;
}

static PyObject *library_loads(PyObject *module, PyObject *nothing) {
  (void)module, (void)nothing;
  unsigned long long count = 0;
  dl_iterate_phdr(copy_loads, &count);
  return PyLong_FromUnsignedLongLong(count);
}

PyMethodDef file_functions[] = {
    {"file_states", file_states, METH_O, DOC_file_states},
    {"library_loads", library_loads, METH_NOARGS, DOC_library_loads},
    {NULL, NULL, 0, NULL},
};
