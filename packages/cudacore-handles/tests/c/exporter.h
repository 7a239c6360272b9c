/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_H
#define EXPORTER_H

/* A second process that exports an event. It is needed because a process cannot import its own event. */

#include "check.h"

/* Returns the handle of the second process's event, which is CCH_EVENT_INTERPROCESS and CCH_EVENT_DISABLE_TIMING. */
cch_ipc_handle exported_event(void);

#endif
