/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a process, it writes each path that a library opens or looks for to $WATCHED_FILES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void note(const char *path) {
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  const char *log = getenv("WATCHED_FILES");
  int file = log != NULL && path != NULL ? real(log, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  struct iovec parts[] = {{(void *)path, path != NULL ? strlen(path) : 0}, {"", 1}};
  if (file < 0)
    return; /* nothing is watched now */
  if (writev(file, parts, 2) < 0)
    abort();
  close(file);
}

#define WATCH(type, name, parameters, arguments)                                                                       \
  type name parameters {                                                                                               \
    type(*real) parameters = dlsym(RTLD_NEXT, #name);                                                                  \
    note(path);                                                                                                        \
    return real arguments;                                                                                             \
  }
#define WATCH_OPEN(name, parameters, arguments)                                                                        \
  int name parameters {                                                                                                \
    int(*real) parameters = dlsym(RTLD_NEXT, #name);                                                                   \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    int mode = va_arg(more, int);                                                                                      \
    va_end(more);                                                                                                      \
    note(path);                                                                                                        \
    return real arguments;                                                                                             \
  }

WATCH(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WATCH(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
WATCH(int, stat, (const char *path, struct stat *out), (path, out))
WATCH(int, stat64, (const char *path, struct stat64 *out), (path, out))
WATCH(int, lstat, (const char *path, struct stat *out), (path, out))
WATCH(int, lstat64, (const char *path, struct stat64 *out), (path, out))
WATCH(int, __xstat, (int version, const char *path, struct stat *out), (version, path, out))
WATCH(int, __xstat64, (int version, const char *path, struct stat64 *out), (version, path, out))
WATCH(int, access, (const char *path, int mode), (path, mode))
WATCH(void *, opendir, (const char *path), (path))
WATCH_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WATCH_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WATCH_OPEN(openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
