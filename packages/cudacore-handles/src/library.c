/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

CCH__DEFINE_VERBS(cch_library, CUlibrary)

/* The driver's linker writes two logs; hand both on as one text. */
static void join_logs(char *log, size_t log_size, const char *info, const char *error) {
  size_t info_length = strlen(info), error_length = strlen(error);
  size_t n = error_length < log_size - 1 ? error_length : log_size - 1;
  memcpy(log, error, n);
  size_t m = info_length < log_size - 1 - n ? info_length : log_size - 1 - n;
  memcpy(log + n, info, m);
  log[n + m] = '\0';
}

static int load_with_log(CUlibrary *out, const void *image, char *log, size_t log_size) {
  char *logs = calloc(2, log_size);
  if (logs == NULL)
    return cch__fail_nomem("cch_library_load");
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {logs, (void *)(uintptr_t)(log_size - 1), logs + log_size, (void *)(uintptr_t)(log_size - 1)};
  int status = CCH__CALL(cuLibraryLoadData, (out, image, options, values, 4, NULL, NULL, 0));
  join_logs(log, log_size, logs, logs + log_size);
  free(logs);
  return status;
}

int cch_library_load(cch_library **out, const void *image, size_t size, char *log, size_t log_size) {
  int status = cch__ready();
  if (status != 0)
    return status;
  cch__reclaim_poll();
  if (log_size != 0)
    log[0] = '\0';
  cch__format format;
  status = cch__image_check(&format, image, size);
  if (status != 0)
    return status;
  char *terminated = NULL;
  if (format == CCH__PTX && ((const char *)image)[size - 1] != '\0') {
    terminated = malloc(size + 1);
    if (terminated == NULL)
      return cch__fail_nomem(__func__);
    memcpy(terminated, image, size);
    terminated[size] = '\0';
    image = terminated;
  }
  cch_library *library = cch__box_new(CCH_KIND_LIBRARY, sizeof *library, __func__);
  if (library == NULL)
    status = CCH_ENOMEM;
  else if (format == CCH__CUBIN || log_size == 0) /* nothing is compiled: nothing to log */
    status = CCH__CALL(cuLibraryLoadData, (&library->raw, image, NULL, NULL, 0, NULL, NULL, 0));
  else
    status = load_with_log(&library->raw, image, log, log_size);
  free(terminated);
  if (status != 0) {
    if (library != NULL)
      cch__box_discard(library);
    return status;
  }
  library->box.owned = true;
  cch__registry_insert(library, library->raw);
  *out = library;
  return 0;
}

int cch_library_wrap(cch_library **out, CUlibrary raw, void *owner, cch_release_fn release) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (raw == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the library is NULL");
  cch_library *library = cch__wrap_known(CCH_KIND_LIBRARY, raw, owner, release);
  if (library == NULL) {
    library = cch__box_new(CCH_KIND_LIBRARY, sizeof *library, __func__);
    if (library == NULL)
      return CCH_ENOMEM;
    library->raw = raw;
    library->box.owner = owner;
    library->box.release = release;
    cch__registry_insert(library, raw);
  }
  *out = library;
  return 0;
}

void cch__library_destroy(cch_library *library) {
  if (library->box.owned)
    cch__report(CCH__CALL(cuLibraryUnload, (library->raw)));
}
