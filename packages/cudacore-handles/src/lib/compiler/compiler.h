/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_COMPILER_H
#define CUDACORE_COMPILER_H

/* Returns the name and the meaning of a compiler's result; NULL for other domains. */
const char *cch__compiler_result(int domain, int code, const char **meaning);

#endif
