/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_H
#define EXPORTER_H

/* A second process, which shares an event: the driver opens no handle in the process that made it. */

#include "check.h"

/* The handle of an event of the other process, with CCH_EVENT_INTERPROCESS and CCH_EVENT_DISABLE_TIMING. */
cch_ipc_handle exported_event(void);

#endif
