/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the driver once, and detects a forked child. */
#define _GNU_SOURCE
#include "base/arguments.h"
#include "driver/current.h"

#include <cudacore_internal/driver.h>

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

cch__driver_table cch__driver;

/*
 * One thread initialises, and the others wait for it. That thread does not hold this lock while it calls the driver,
 * which has its own locks and fork handlers: a fork takes the driver's lock first and then this one.
 */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t init_ended = PTHREAD_COND_INITIALIZER;
static bool initialising;

static PFN_cuGetProcAddress_v12000 get_proc_address; /* set by the thread that initialises, before it sets cch__state */
static atomic_bool loaded;
static void *library;      /* the driver's library; set before `loaded` */
static char *library_name; /* the name that it was loaded by */
static _Atomic(cch_search_fn) find_named;

/* While the process forks, no thread may begin or end initialisation: the child would get a half-loaded driver. */
static void before_fork(void) { pthread_mutex_lock(&init_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&init_lock); }

static void after_fork_in_child(void) {
  if (initialising || atomic_load(&cch__state) == CCH__READY)
    atomic_store(&cch__state, CCH__FORKED);
  init_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* the threads that waited do not exist in the child */
  pthread_mutex_unlock(&init_lock);
}

__attribute__((constructor)) static void watch_fork(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void *cch__driver_entry(const char *name, int version) {
  void *entry = NULL;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get_proc_address(name, &entry, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS)
    return NULL;
  return found == CU_GET_PROC_ADDRESS_SUCCESS ? entry : NULL;
}

bool cch__driver_loaded(void) { return atomic_load_explicit(&loaded, memory_order_acquire); }

const char *cch__driver_error_name(int result) {
  const char *name = NULL;
  if (result > 0 && cch__driver_loaded() && cch__driver.cuGetErrorName)
    cch__driver.cuGetErrorName((CUresult)result, &name);
  return name;
}

const char *cch__driver_error_string(int result) {
  const char *meaning = NULL;
  if (result > 0 && cch__driver_loaded() && cch__driver.cuGetErrorString)
    cch__driver.cuGetErrorString((CUresult)result, &meaning);
  return meaning;
}

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

enum { NAME_SIZE = 128 };
typedef char variable_name[NAME_SIZE];

/*
 * If $CUDACORE_DRIVER is the name of a driver that a package contains, returns it, and writes the name of the variable
 * with the path of the library. Otherwise, returns NULL.
 */
static const char *package_driver(variable_name out) {
  const char *name = variable("CUDACORE_DRIVER");
  if (name == NULL || strcasecmp(name, "gpu") == 0 || strpbrk(name, "/.") != NULL)
    return NULL;
  snprintf(out, NAME_SIZE, "CUDACORE_%s_LIBRARY", name);
  for (char *letter = out; *letter != '\0'; letter++)
    *letter = (char)toupper((unsigned char)*letter);
  return name;
}

/* Returns the library that $CUDACORE_DRIVER selects; NULL if that is a package's, and its path is not known. */
static const char *driver_name(void) {
  variable_name path;
  if (package_driver(path) != NULL)
    return variable(path);
  const char *name = variable("CUDACORE_DRIVER");
  return name == NULL || strcasecmp(name, "gpu") == 0 ? "libcuda.so.1" : name;
}

static const cch__driver_hooks *hooks_of(void *driver) {
  const cch__driver_hooks *(*get)(void) = NULL;
  void *entry = driver != NULL ? dlsym(driver, "cudacoreDriverHooks") : NULL;
  memcpy(&get, &entry, sizeof get);
  const cch__driver_hooks *hooks = get != NULL ? get() : NULL;
  return hooks != NULL && hooks->size >= sizeof *hooks ? hooks : NULL;
}

const cch__driver_hooks *cch__driver_find_hooks(void) {
  if (cch__driver_loaded())
    return hooks_of(library);
  variable_name path;
  int unless_loaded = package_driver(path) != NULL ? 0 : RTLD_NOLOAD;
  const char *name = driver_name();
  return hooks_of(name != NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL | unless_loaded) : NULL);
}

void cch_driver_explain(char *out, size_t size) {
  const cch__driver_hooks *hooks = cch__driver_find_hooks();
  if (out == NULL || size == 0)
    return;
  *out = '\0';
  if (hooks != NULL && hooks->explain != NULL)
    hooks->explain(out, size);
}

bool cch_driver_replaces_compilers(void) {
  const cch__driver_hooks *hooks = cch__driver_find_hooks();
  return hooks != NULL && hooks->symbol != NULL;
}

static int load(void) {
  const char *name = driver_name();
  if (name == NULL) {
    variable_name path;
    const char *package = package_driver(path);
    return cch__fail(CCH_ENODRIVER, "dlopen",
                     "CUDACORE_DRIVER is %s, and there is no driver of this name: install cudacore-%s, or have %s name "
                     "its library; CUDACORE_DRIVER can also be gpu, or the path of a driver",
                     package, package, path);
  }
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL)
    return cch__fail(CCH_ENODRIVER, "dlopen", "%s%s", dlerror(),
                     variable("CUDACORE_DRIVER") != NULL
                         ? "; CUDACORE_DRIVER can be gpu, the name of a driver that is installed, or a path"
                         : "");
  void *entry = dlsym(handle, "cuGetProcAddress_v2");
  if (entry == NULL) {
    dlclose(handle);
    return cch__fail(CCH_ENODRIVER, "dlopen", "%s is not a CUDA driver of version 12.0 or newer", name);
  }
  /* The library stays open for the life of the process, because boxes hold handles of the driver. */
  memcpy(&get_proc_address, &entry, sizeof entry);
#define CCH__RESOLVE(name, version)                                                                                    \
  entry = cch__driver_entry(#name, version);                                                                           \
  memcpy(&cch__driver.name, &entry, sizeof entry);
  CCH__DRIVER_FUNCTIONS(CCH__RESOLVE)
#undef CCH__RESOLVE
#define CCH__RESOLVE(name, version)                                                                                    \
  entry = cch__driver_entry(#name, version);                                                                           \
  memcpy(&cch__driver.name##_v##version, &entry, sizeof entry);
  CCH__NEWER_FUNCTIONS(CCH__RESOLVE)
#undef CCH__RESOLVE
  /*
   * The version of cuEventElapsedTime of CUDA 12.8 is preferred to the older one: it takes the same arguments, and does
   * not query the device for each event.
   */
  if (cch__driver.cuEventElapsedTime == NULL) {
    entry = cch__driver_entry("cuEventElapsedTime", 2000);
    memcpy(&cch__driver.cuEventElapsedTime, &entry, sizeof entry);
  }
  cch__stand_in();
  library = handle;
  library_name = strdup(name); /* if there is no memory, only cch_driver_is_other() has less to say */
  atomic_store_explicit(&loaded, true, memory_order_release);
  return 0;
}

static int fail_forked(void) {
  return cch__fail(CCH_EFORKED, "fork",
                   "CUDA was initialised before this process was forked, and cannot be used in the child");
}

static int init(void) {
  if (get_proc_address == NULL)
    CCH__RETURN_FAILURE(load());
  int status = CCH__CALL(cuInit, (0));
  /* The driver returns this in the child of a process in which other code, such as NVRTC, has called cuInit. */
  return status == CUDA_ERROR_NOT_INITIALIZED ? fail_forked() : status;
}

void cch_driver_set_search(cch_search_fn search) { atomic_store(&find_named, search); }

bool cch_driver_is_other(void) {
  if (!cch__driver_loaded() || library_name == NULL)
    return false;
  const char *name = driver_name();
  if (name == NULL) /* that of a package, and its path is not known */
    return hooks_of(library) == NULL;
  if (strcmp(name, library_name) == 0)
    return false;
  void *same = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); /* one library can have several names */
  if (same != NULL)
    dlclose(same);
  return same != library;
}

cch_status cch_driver_init(void) {
  int state = atomic_load_explicit(&cch__state, memory_order_acquire);
  if (state == CCH__READY)
    return 0;
  if (state == CCH__FORKED)
    return fail_forked();
  cch_search_fn search = atomic_load(&find_named);
  if (search != NULL && driver_name() == NULL)
    search();
  pthread_mutex_lock(&init_lock);
  while (initialising)
    pthread_cond_wait(&init_ended, &init_lock);
  int status = 0;
  if (atomic_load(&cch__state) != CCH__READY) {
    initialising = true;
    pthread_mutex_unlock(&init_lock);
    status = init();
    pthread_mutex_lock(&init_lock);
    initialising = false;
    if (status == 0 || status == CCH_EFORKED)
      atomic_store_explicit(&cch__state, status == 0 ? CCH__READY : CCH__FORKED, memory_order_release);
    pthread_cond_broadcast(&init_ended);
  }
  pthread_mutex_unlock(&init_lock);
  return status;
}

typedef struct table_row {
  const char *name;
  size_t length;
  int version;
  size_t offset; /* of the field in the table */
} table_row;

/* Returns the row of a function; NULL if the library does not use it. */
static const table_row *find_row(const char *name) {
  static const table_row rows[] = {
#define CCH__ROW(name, version) {#name, sizeof #name - 1, version, offsetof(cch__driver_table, name)},
      CCH__DRIVER_FUNCTIONS(CCH__ROW)
#undef CCH__ROW
  };
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].length == length && memcmp(rows[i].name, name, length) == 0) /* few have the same length */
      return &rows[i];
  return NULL;
}

int cch__fail_missing_version(const char *operation, int needed) {
  int have = 0;
  if (cch__driver.cuDriverGetVersion)
    cch__driver.cuDriverGetVersion(&have);
  return cch__fail(CCH_ENOSYMBOL, operation,
                   "needs a driver for CUDA %d.%d or newer; the loaded driver is for CUDA %d.%d", needed / 1000,
                   needed % 1000 / 10, have / 1000, have % 1000 / 10);
}

int cch__fail_missing(const char *operation) {
  const table_row *row = find_row(operation);
  return cch__fail_missing_version(operation, row != NULL ? row->version : 0);
}

cch_status cch_driver_version(int *out) {
  CCH__REQUIRE_USABLE(out);
  return CCH__CALL(cuDriverGetVersion, (out));
}

/* Pointers and integers are passed in a register or a place of the stack each, wherever CUDA runs on Linux. */
cch_status cch_driver_call(const char *name, const uintptr_t *arguments, void *const *boxes, cch_context *context) {
  CCH__REQUIRE_USABLE(name, arguments, boxes);
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(context, "the argument context", name));
  const table_row *row = find_row(name);
  if (row == NULL)
    return cch__fail(CCH_EINVAL, name, "it is not in the table of the driver's functions");
  for (; *boxes != NULL; boxes++)
    CCH__RETURN_FAILURE(cch__check_usable(*boxes, ((const cch__box *)*boxes)->kind, "a box", name));
  int (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
  memcpy(&function, (const char *)&cch__driver + row->offset, sizeof function);
  if (function == NULL)
    return cch__fail_missing(name);
  return CCH__IN_CONTEXT(context, cch__checked(function(arguments[0], arguments[1], arguments[2], arguments[3],
                                                        arguments[4], arguments[5], arguments[6], arguments[7]),
                                               name));
}
