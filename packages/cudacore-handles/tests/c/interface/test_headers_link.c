/* SPDX-License-Identifier: Apache-2.0 */
/* A program that includes all public headers, and nothing else. It is built as C11 and as C++17. */
#include <cudacore/cudacore.h>

int main(void) {
  cch_launch_config config = {sizeof(cch_launch_config), 0, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0, 0};
  cch_stream *stream = cch_stream_legacy();
  const cch_api *api = cch_get_api(CCH_ABI_VERSION, sizeof(cch_api));
  cch_error_clear();
  cch_stream_unref(stream);
  return cch_version() == CCH_VERSION && cch_error_last()->domain == CCH_DOMAIN_NONE && config.size != 0 && api != NULL
             ? 0
             : 1;
}
