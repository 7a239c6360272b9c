/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the builtins of NVRTC 12.1, the version that fakecompiler.c has: a library that is only loaded. */
const char fake_builtins[] = "builtins";
