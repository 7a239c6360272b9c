/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/driver.h. */
int cch_driver_init(void);
int cch_driver_version(int *out);
int cch_driver_symbol(void **out, const char *name, int version);
int cch_device_count(int *out);
int cch_device_attribute(int *out, int attribute, int device);
