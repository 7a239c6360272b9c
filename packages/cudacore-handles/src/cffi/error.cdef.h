/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/error.h. */
typedef enum cch_status {
  CCH_OK = 0,
  CCH_ENOMEM = -1,
  CCH_EINVAL = -2,
  CCH_ENODRIVER = -3,
  CCH_ENOSYMBOL = -4,
  CCH_EFORKED = -5,
  CCH_EIMAGE = -6,
  CCH_EMISMATCH = -7
} cch_status;
typedef enum cch_domain { CCH_DOMAIN_NONE = 0, CCH_DOMAIN_HANDLES = 1, CCH_DOMAIN_DRIVER = 2 } cch_domain;
typedef struct cch_error {
  int32_t domain;
  int32_t code;
  char operation[64];
  char message[440];
} cch_error;
void cch_error_last(cch_error *out);
void cch_error_clear(void);
const char *cch_error_name(int code);
const char *cch_error_string(int code);
typedef void (*cch_report_fn)(const cch_error *error);
void cch_error_set_report(cch_report_fn report);
