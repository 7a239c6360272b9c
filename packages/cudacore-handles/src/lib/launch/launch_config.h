/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_LAUNCH_CONFIG_H
#define CCH_LAUNCH_CONFIG_H

#include "driver/current.h"

/* A launch in the driver's form, with the attributes that it points to. */
typedef struct cch__native_launch {
  CUlaunchConfig config;
  CUlaunchAttribute attributes[4];
} cch__native_launch;

int cch__native_launch_fill(cch__native_launch *out, const cch_launch_config *config, CUstream stream,
                            const char *operation);

#endif
