/* SPDX-License-Identifier: Apache-2.0 */
/* A replacement for the builtins of NVRTC 12.1, the version of fakecompiler.c: a library that is only loaded. */
const char fake_builtins[] = "builtins";
