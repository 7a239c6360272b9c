/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_CAPTURE_H
#define CCH_CAPTURE_H

#include "graph/graph.h"
#include "stream/capture.h"

/*
 * Called after the last reference to the graph's box was dropped, because nothing else will end its capture. Returns
 * false if that is not possible now.
 */
bool cch__capture_abandon(cch_graph *graph);
void cch__capture_free(cch_graph *graph);

#endif
