/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_CAPTURE_H
#define CCH_CAPTURE_H

#include "graph/graph.h"
#include "stream/capture_info.h"

/* Guards what streams know of their captures, the captures of graphs, and what captures keep. A graph that dies is not
 * found any more once this was taken. */
extern pthread_mutex_t cch__captures_lock;

/* The box's last reference has gone: nobody will end its capture. False where that is not possible here and now. */
bool cch__capture_abandon(cch_graph *graph);
void cch__capture_drop(cch_graph *graph);

#endif
