/* SPDX-License-Identifier: Apache-2.0 */
/* printf and assert. The output is recorded. */
//! nvrtc: --fmad=false -DNDEBUG
#include "rows.cuh"

//! i32:8 i64:4 f64:8 -> u32:1 grid=1 block=1 print=ordered
extern "C" __global__ void print_formats(const i32 *i, const i64 *l, const double *d, u32 *out) {
  printf("%d %i %u %x %X %o %c %%\n", i[0], i[1], i[2], i[3], i[4], i[5], 'A' + (i[6] & 15));
  printf("%lld %llu %llx %ld\n", l[0], l[1], l[2], (long)l[3]);
  printf("%f %e %g %E %G %.3f %10.2e|\n", d[0] > 1e9 || d[0] < -1e9 ? 1.5 : d[0], d[1], d[2], d[3], d[4], 3.14159,
         d[5]);
  printf("%5d|%-5d|%05d|%+d|% d|%*d|%.*f\n", 42, 42, 42, 42, 42, 7, 42, 2, 2.71828);
  printf("%s %10s|%-10s|%.3s\n", "text", "right", "left", "shortened");
  printf("%#x %#o %08.3f %hd\n", 255, 8, 3.14159, 70000);
  printf("%a %g %g %g %g\n", 1.0, __longlong_as_double(0x7ff0000000000000), -0.0,
         __longlong_as_double(0x8000000000000001), 1e-5f);
  int n = printf("no arguments\n");
  n = n * 10 + printf("%d %d %d\n", 1, 2, 3);
  *out = n;
}

//! i32 -> u32:1 print=sorted
extern "C" __global__ void print_by_many(const i32 *a, u32 *) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (a[index] > 0)
    printf("block %d thread %d: %d\n", blockIdx.x, threadIdx.x, a[index]);
  else if (index % 3 == 0)
    printf("%s %.2f\n", index % 2 ? "odd" : "even", index * 0.5);
}

//! i32:4 -> u32:1 grid=1 block=1 print=ordered
extern "C" __global__ void print_in_loops(const i32 *a, u32 *out) {
  for (int i = 0; i < 4; ++i) {
    printf("%d:", i);
    for (int j = 0; j < (a[i] & 7); ++j)
      printf(" %d", j * j);
    printf("\n");
  }
  *out = 1;
}

/* With NDEBUG, assert does nothing. */
//! i32 -> i32 print=ordered
extern "C" __global__ void assert_off(const i32 *a, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  assert(a[index] == 12345);
  out[index] = a[index] / 2;
}
