/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_config.h"

#include <string.h>

/* The size of the structure in version 0.1; later versions may append fields. */
enum { CONFIG_0_1 = offsetof(cch_launch_config, shared_bytes) + sizeof(uint32_t) };

/* The maximum number of threads in a block on any device. */
#define MAX_THREADS 1024u
#define MAX_THREADS_IN_Z 64u

static const uint32_t KNOWN_FLAGS =
    CCH_LAUNCH_COOPERATIVE | CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION | CCH_LAUNCH_PRIORITY;

static CUlaunchAttributeValue *add(CUlaunchConfig *launch, CUlaunchAttributeID id) {
  CUlaunchAttribute *attribute = &launch->attrs[launch->numAttrs++];
  memset(attribute, 0, sizeof *attribute);
  attribute->id = id;
  return &attribute->value;
}

int cch__native_launch_fill(cch__native_launch *out, const cch_launch_config *config, CUstream stream,
                            const char *operation) {
  cch_launch_config known;
  if (config->size != sizeof *config) {
    CCH__RETURN_FAILURE(
        cch__read_sized(&known, sizeof known, config, config->size, CONFIG_0_1, "cch_launch_config", operation));
    config = &known;
  }
  if (config->flags & ~KNOWN_FLAGS)
    return cch__fail(CCH_EINVAL, operation, "the cch_launch_config has flags that this version does not have: 0x%x",
                     config->flags & ~KNOWN_FLAGS);
  const uint32_t *block = config->block;
  if (block[0] > MAX_THREADS || block[1] > MAX_THREADS || block[2] > MAX_THREADS_IN_Z ||
      block[0] * block[1] * block[2] > MAX_THREADS) /* the driver's refusal would invalidate a capture */
    return cch__fail(CUDA_ERROR_INVALID_VALUE, operation,
                     "no device takes blocks of (%u, %u, %u) threads: a block has at most %u, and at most %u in z",
                     block[0], block[1], block[2], MAX_THREADS, MAX_THREADS_IN_Z);
  CUlaunchConfig *launch = &out->config;
  memset(launch, 0, sizeof *launch);
  launch->gridDimX = config->grid[0];
  launch->gridDimY = config->grid[1];
  launch->gridDimZ = config->grid[2];
  launch->blockDimX = config->block[0];
  launch->blockDimY = config->block[1];
  launch->blockDimZ = config->block[2];
  launch->sharedMemBytes = config->shared_bytes;
  launch->hStream = stream;
  launch->attrs = out->attributes;
  if ((config->cluster[0] | config->cluster[1] | config->cluster[2]) != 0) {
    CUlaunchAttributeValue *value = add(launch, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    value->clusterDim.x = config->cluster[0];
    value->clusterDim.y = config->cluster[1];
    value->clusterDim.z = config->cluster[2];
  }
  if (config->flags & CCH_LAUNCH_COOPERATIVE)
    add(launch, CU_LAUNCH_ATTRIBUTE_COOPERATIVE)->cooperative = 1;
  if (config->flags & CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION)
    add(launch, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)->programmaticStreamSerializationAllowed = 1;
  if (config->flags & CCH_LAUNCH_PRIORITY)
    add(launch, CU_LAUNCH_ATTRIBUTE_PRIORITY)->priority = config->priority;
  return 0;
}
