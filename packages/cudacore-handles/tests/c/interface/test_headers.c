/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file is compiled, as C11 and as C++17, for each public header: with the header alone (-DHEADER=<...>), twice,
 * and with cuda.h before or after it. Nothing here is run.
 */
#if defined(CUDA_FIRST)
#include <cuda.h>
#endif

#include HEADER
#include HEADER

#if defined(CUDA_LAST)
#include <cuda.h>
#endif

extern int this_file_is_not_empty;
