/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

/* Shared by the programs whose tests work on device 0. */

#include "check.h"

extern cch_context *context;
extern cch_stream *stream;
extern cch_pool *pool;

/* Open and close the context, a stream, and the device's pool. */
void device_open(void);
void device_close(void);

/* Open and close only the context, which is made current. */
void context_open(void);
void context_close(void);

cch_event *new_event(void);
/* Checks that wrapping the handle of an event returns the same box. */
void check_found(cch_event *event);

#endif
