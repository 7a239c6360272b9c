/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replacement for the builtins library of NVRTC 12.1, the version that fakecompiler.c imitates. It is loaded, but not
 * called.
 */
const char fake_builtins[] = "builtins";
