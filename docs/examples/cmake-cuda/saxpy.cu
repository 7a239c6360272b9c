#include "saxpy.h"

extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {
  unsigned i = first();
  if (i < n)
    y[i] += a * x[i];
}
