/* SPDX-License-Identifier: Apache-2.0 */
/* The library's version and path, and the counts of live boxes. */
#include "check.h"

/* The header and the loaded library would have different versions. */
static void version_is_the_headers(void) {
  CHECK_EQ(cch_version(), CCH_VERSION);
  CHECK_EQ(CCH_VERSION >> 16, CCH_VERSION_MAJOR);
  CHECK_EQ(CCH_VERSION >> 8 & 0xff, CCH_VERSION_MINOR);
  CHECK_EQ(CCH_VERSION & 0xff, CCH_VERSION_PATCH);
}

/* A program could not determine which copy of the library it has loaded. */
static void path_names_the_library(void) {
  CHECK_HAS(cch_library_path(), "libcudacore_handles.so");
  FILE *file = fopen(cch_library_path(), "rb");
  CHECK(file != NULL);
  fclose(file);
}

/* The live count of another kind would be returned, or an unknown kind would cause a read beyond the table. */
static void live_counts_are_by_kind(void) {
  cch_context *context;
  cch_stream *stream, *legacy = cch_stream_legacy();
  cch_event *first, *second;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_event_create(&first, context, 0));
  OK(cch_event_create(&second, context, 0));
  CHECK_EQ(cch_live_count(CCH_KIND_CONTEXT), 1);
  CHECK_EQ(cch_live_count(CCH_KIND_STREAM), 1); /* default streams are not counted */
  CHECK_EQ(cch_live_count(CCH_KIND_EVENT), 2);
  CHECK_EQ(cch_live_count(CCH_KIND_POOL), 0);
  cch_event_unref(first);
  CHECK_EQ(cch_live_count(CCH_KIND_EVENT), 1);
  cch_event_unref(second);
  cch_stream_unref(stream);
  cch_stream_unref(legacy);
  cch_context_unref(context);
  CHECK_EQ(cch_live_count(-1), 0);
  CHECK_EQ(cch_live_count(CCH_KIND_COUNT), 0);
  CHECK_EQ(cch_live_count(1 << 30), 0);
}

/* A caller that passes NULL to ref, unref or raw, to clean up boxes that were never made, would crash. */
static void verbs_take_null(void) {
#define VERBS(type)                                                                                                    \
  CHECK(type##_ref(NULL) == NULL);                                                                                     \
  type##_unref(NULL);                                                                                                  \
  CHECK(!type##_raw(NULL));
  VERBS(cch_context)
  VERBS(cch_stream)
  VERBS(cch_event)
  VERBS(cch_pool)
  VERBS(cch_deviceptr)
  VERBS(cch_library)
  VERBS(cch_kernel)
  VERBS(cch_nvrtc_program)
  VERBS(cch_nvvm_program)
  VERBS(cch_nvjitlink_linker)
  cch_unref_deferred(NULL);
}

int main(void) {
  check_open();
  RUN(version_is_the_headers);
  RUN(path_names_the_library);
  RUN(live_counts_are_by_kind);
  RUN(verbs_take_null);
  return 0;
}
