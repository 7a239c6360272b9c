/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_config.h"

cch_status cch_occupancy_clusters(int *out, bool largest, cch_stream *stream, const cch_launch_config *config,
                                  cch_kernel *kernel) {
  CCH__REQUIRE_USABLE(out, stream, config, kernel);
  CUfunction function = (CUfunction)kernel->raw; /* the driver accepts it */
  cch__native_launch launch;
  CCH__RETURN_FAILURE(cch__native_launch_fill(&launch, config, stream->raw, __func__));
  return CCH__IN_CONTEXT(stream->context,
                         largest ? CCH__CALL(cuOccupancyMaxPotentialClusterSize, (out, function, &launch.config))
                                 : CCH__CALL(cuOccupancyMaxActiveClusters, (out, function, &launch.config)));
}
