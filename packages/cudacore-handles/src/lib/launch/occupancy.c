/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_config.h"

/*
 * The driver accepts a CUkernel as a CUfunction, and the results are for the device of the current context. If the
 * caller passes a context, it is made current for the call.
 */

cch_status cch_occupancy_max_active_blocks(int *out, cch_kernel *kernel, int block_size, size_t shared_bytes,
                                           cch_context *context) {
  CCH__REQUIRE_USABLE(out, kernel);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  return CCH__IN_CONTEXT(context, CCH__CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                            (out, (CUfunction)kernel->raw, block_size, shared_bytes)));
}

cch_status cch_occupancy_max_potential_block_size(int *grid_size, int *block_size, cch_kernel *kernel,
                                                  cch_shared_bytes_fn shared_bytes_of, size_t shared_bytes, int limit,
                                                  cch_context *context) {
  CCH__REQUIRE_USABLE(grid_size, block_size, kernel);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  return CCH__IN_CONTEXT(
      context, CCH__CALL(cuOccupancyMaxPotentialBlockSize,
                         (grid_size, block_size, (CUfunction)kernel->raw, shared_bytes_of, shared_bytes, limit)));
}

cch_status cch_occupancy_available_shared_bytes(size_t *out, cch_kernel *kernel, int blocks, int block_size,
                                                cch_context *context) {
  CCH__REQUIRE_USABLE(out, kernel);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  return CCH__IN_CONTEXT(
      context, CCH__CALL(cuOccupancyAvailableDynamicSMemPerBlock, (out, (CUfunction)kernel->raw, blocks, block_size)));
}

typedef enum query { MAX_CLUSTER_SIZE, MAX_CLUSTERS } query;

static int query_clusters(int *out, query which, cch_stream *stream, const cch_launch_config *config,
                          cch_kernel *kernel, const char *operation) {
  CUfunction function = (CUfunction)kernel->raw;
  cch__native_launch launch;
  CCH__RETURN_FAILURE(cch__native_launch_fill(&launch, config, stream->raw, operation));
  return CCH__IN_CONTEXT(stream->context,
                         which == MAX_CLUSTERS
                             ? CCH__CALL(cuOccupancyMaxActiveClusters, (out, function, &launch.config))
                             : CCH__CALL(cuOccupancyMaxPotentialClusterSize, (out, function, &launch.config)));
}

cch_status cch_occupancy_max_potential_cluster_size(int *out, cch_stream *stream, const cch_launch_config *config,
                                                    cch_kernel *kernel) {
  CCH__REQUIRE_USABLE(out, stream, config, kernel);
  return query_clusters(out, MAX_CLUSTER_SIZE, stream, config, kernel, __func__);
}

cch_status cch_occupancy_max_active_clusters(int *out, cch_stream *stream, const cch_launch_config *config,
                                             cch_kernel *kernel) {
  CCH__REQUIRE_USABLE(out, stream, config, kernel);
  return query_clusters(out, MAX_CLUSTERS, stream, config, kernel, __func__);
}
