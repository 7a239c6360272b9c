/* SPDX-License-Identifier: Apache-2.0 */
/* Python functions that the library calls back; cffi takes the GIL for them. */
extern "Python" void cudacore_release(void *owner);
extern "Python" void cudacore_free(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream);
