/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuRAND's device functions. All results must be equal to the recorded ones, except for normally distributed numbers,
 * which have error bounds.
 */
//! cuda: 13
#include "rows.cuh"
#include <curand_kernel.h>

//! u64 u64(0,100000) -> rows:u32
extern "C" __global__ void xorwow(const u64 *seeds, const u64 *offsets, u32 *out) {
  BEGIN(out);
  curandStateXORWOW_t state;
  curand_init(seeds[index], 0, offsets[index] % 50, &state);
  ROW(curand(&state));
  ROW(curand(&state));
  ROW(state.d);
  ROW(curand_uniform(&state));
  for (int i = 0; i < 20; ++i)
    curand(&state);
  ROW(curand(&state));
  ROW(state.v[0] ^ state.v[4]);
}

/* All threads have the same seed, and each has its own subsequence. Subsequences begin 2^67 numbers apart. */
//! =u64:1 u64(0,4000000000) -> rows:u32
extern "C" __global__ void xorwow_sequences(u64 seed, const u64 *offsets, u32 *out) {
  BEGIN(out);
  curandStateXORWOW_t state;
  curand_init(seed, index * 3, index, &state);
  ROW(curand(&state));
  skipahead(offsets[index], &state);
  ROW(curand(&state));
  skipahead_sequence(offsets[index] & 0xff, &state);
  ROW(curand(&state));
}

//! u64 u64(0,1000000) -> rows:u64
extern "C" __global__ void mrg32k3a(const u64 *seeds, const u64 *offsets, u64 *out) {
  BEGIN(out);
  curandStateMRG32k3a_t state;
  curand_init(seeds[index], index, 0, &state);
  ROW(curand(&state));
  ROW(curand(&state));
  skipahead(offsets[index], &state);
  ROW(curand(&state));
  skipahead_subsequence(offsets[index] & 15, &state);
  ROW(curand(&state));
  skipahead_sequence(offsets[index] & 15, &state);
  ROW(curand(&state));
  ROW(curand_uniform(&state));
  ROW(curand_uniform_double(&state));
}

//! u64 u64 u64 -> rows:u64
extern "C" __global__ void philox(const u64 *seeds, const u64 *sequences, const u64 *offsets, u64 *out) {
  BEGIN(out);
  curandStatePhilox4_32_10_t state;
  curand_init(seeds[index], sequences[index], offsets[index], &state);
  ROW(curand(&state));
  uint4 four = curand4(&state);
  ROW(four.x ^ u64(four.y) << 32);
  ROW(four.z ^ u64(four.w) << 32);
  skipahead(sequences[index], &state);
  ROW(curand(&state));
  skipahead_sequence(offsets[index], &state);
  ROW(curand(&state));
  float4 floats = curand_uniform4(&state);
  ROW(make_float2(floats.x, floats.w));
  double2 doubles = curand_uniform2_double(&state);
  ROW(doubles.x);
  ROW(doubles.y);
  ROW(curand_uniform_double(&state));
}

/* Sobol sequences with arbitrary direction vectors. */
//! u32:32 u32 u32 -> rows:u32
extern "C" __global__ void sobol32(u32 *vectors, const u32 *offsets, const u32 *scramble, u32 *out) {
  BEGIN(out);
  curandStateSobol32_t state;
  curand_init(vectors, offsets[index], &state);
  ROW(curand(&state));
  ROW(curand(&state));
  skipahead(offsets[255 - index], &state);
  ROW(curand(&state));
  ROW(curand_uniform(&state));
  curandStateScrambledSobol32_t scrambled;
  curand_init(vectors, scramble[index], offsets[index], &scrambled);
  ROW(curand(&scrambled));
  skipahead(offsets[index] & 7, &scrambled);
  ROW(curand(&scrambled));
  ROW(curand_uniform(&scrambled));
}

//! u64:64 u64 u64 -> rows:u64
extern "C" __global__ void sobol64(u64 *vectors, const u64 *offsets, const u64 *scramble, u64 *out) {
  BEGIN(out);
  curandStateSobol64_t state;
  curand_init(vectors, offsets[index], &state);
  ROW(curand(&state));
  skipahead(offsets[255 - index], &state);
  ROW(curand(&state));
  ROW(curand_uniform(&state));
  ROW(curand_uniform_double(&state));
  curandStateScrambledSobol64_t scrambled;
  curand_init(vectors, scramble[index], offsets[index], &scrambled);
  ROW(curand(&scrambled));
  ROW(curand(&scrambled));
  ROW(curand_uniform_double(&scrambled));
}

/* The threads of a block share a generator state. Its parameters and its initial words are arbitrary numbers. */
__device__ mtgp32_kernel_params_t parameters[4];

//! u32:351 u32:192 u32(4,95):4 u32(1,31):8 -> rows:u32
extern "C" __global__ void mtgp32(const u32 *words, const u32 *tables, const u32 *places, const u32 *shifts, u32 *out) {
  BEGIN(out);
  mtgp32_kernel_params_t &own = parameters[blockIdx.x];
  __shared__ curandStateMtgp32_t state;
  if (threadIdx.x < 16) {
    own.param_tbl[3][threadIdx.x] = tables[threadIdx.x * 3];
    own.temper_tbl[3][threadIdx.x] = tables[threadIdx.x * 3 + 1];
    own.single_temper_tbl[3][threadIdx.x] = 0x3f800000 | (tables[threadIdx.x * 3 + 2] & 0x7fffff);
  }
  for (int i = threadIdx.x; i < 351; i += blockDim.x)
    state.s[i] = words[i] + blockIdx.x;
  if (threadIdx.x == 0) {
    own.pos_tbl[3] = places[blockIdx.x];
    own.sh1_tbl[3] = shifts[2 * blockIdx.x];
    own.sh2_tbl[3] = shifts[2 * blockIdx.x + 1];
    own.mask[0] = 0xfff80000;
    state.offset = 0;
    state.pIdx = 3;
    state.k = &own;
  }
  __syncthreads();
  ROW(curand(&state));
  ROW(curand(&state));
  ROW(curand_mtgp32_specific(&state, threadIdx.x, 64));
  for (int i = 0; i < 20; ++i)
    curand(&state);
  ROW(curand(&state));
  ROW(curand_uniform(&state));
  __syncthreads();
  ROW(curand_mtgp32_single(&state));
}

/* A normally distributed float is a radius below 6.7, multiplied by a result of __sincosf with an error of 2^-21.
 * Normally distributed doubles may differ by a few ULP. */
//! u64 -> rows:f32
extern "C" __global__ void xorwow_normals(const u64 *seeds, float *out) {
  BEGIN(out);
  curandStateXORWOW_t state;
  curand_init(seeds[index], 0, 0, &state);
  ABS(4e-6, curand_normal(&state));
  ABS(4e-6, curand_normal(&state));
  float2 two = curand_normal2(&state);
  ABS(4e-6, two.x);
  ABS(4e-6, two.y);
  ABS(1e-4, curand_log_normal(&state, 0.5f, 0.75f));
  ABS(1e-4, curand_log_normal(&state, 0.5f, 0.75f));
}

//! u64 -> rows:f64
extern "C" __global__ void mrg32k3a_normals(const u64 *seeds, double *out) {
  BEGIN(out);
  curandStateMRG32k3a_t state;
  curand_init(seeds[index], 1, 2, &state);
  ULP(4, curand_normal_double(&state));
  ULP(4, curand_normal_double(&state));
  double2 two = curand_normal2_double(&state);
  ULP(4, two.x);
  ULP(4, two.y);
  ULP(4, curand_log_normal_double(&state, 0.5, 0.75));
  ABS(4e-6, double(curand_normal(&state)));
}

//! u64 u64 -> rows:f64
extern "C" __global__ void philox_normals(const u64 *seeds, const u64 *sequences, double *out) {
  BEGIN(out);
  curandStatePhilox4_32_10_t state;
  curand_init(seeds[index], sequences[index], 0, &state);
  float4 four = curand_normal4(&state);
  ABS(4e-6, double(four.x));
  ABS(4e-6, double(four.y));
  ABS(4e-6, double(four.z));
  ABS(4e-6, double(four.w));
  double2 two = curand_normal2_double(&state);
  ULP(4, two.x);
  ULP(4, two.y);
  ULP(4, curand_normal_double(&state));
  four = curand_log_normal4(&state, 0, 0.25f);
  ABS(5e-6, double(four.y));
}

/* Quasirandom normally distributed numbers are computed by the inverse of the distribution function. */
//! u32:32 u64:64 u32 u64 -> rows:f64
extern "C" __global__ void sobol_normals(u32 *vectors, u64 *wide, const u32 *offsets, const u64 *far, double *out) {
  BEGIN(out);
  curandStateSobol32_t state;
  curand_init(vectors, offsets[index], &state);
  ABS(4e-6, double(curand_normal(&state)));
  ULP(4, curand_normal_double(&state));
  curandStateScrambledSobol64_t scrambled;
  curand_init(wide, far[255 - index], far[index], &scrambled);
  ABS(4e-6, double(curand_normal(&scrambled)));
  ULP(4, curand_normal_double(&scrambled));
  ULP(4, curand_log_normal_double(&scrambled, 0.5, 0.75));
}

/* Poisson distributions with small and with large means, for which cuRAND uses different algorithms. */
//! u64 f64(0.1,60) f64(70,900) -> rows:u32
extern "C" __global__ void poisson(const u64 *seeds, const double *few, const double *many, u32 *out) {
  BEGIN(out);
  curandStateXORWOW_t xorwow;
  curand_init(seeds[index], 0, 0, &xorwow);
  ROW(curand_poisson(&xorwow, few[index]));
  ROW(curand_poisson(&xorwow, many[index]));
  curandStatePhilox4_32_10_t philox;
  curand_init(seeds[index], 0, 0, &philox);
  uint4 four = curand_poisson4(&philox, few[index]);
  ROW(four.x + (four.y << 8) + (four.z << 16) + (four.w << 24));
  ROW(curand_poisson(&philox, many[index]));
  curandStateMRG32k3a_t mrg;
  curand_init(seeds[index], 0, 0, &mrg);
  ROW(curand_poisson(&mrg, few[index]));
}

//! u32:32 u32 f64(0.1,60) f64(70,3000) -> rows:u32
extern "C" __global__ void sobol_poisson(u32 *vectors, const u32 *offsets, const double *few, const double *many,
                                         u32 *out) {
  BEGIN(out);
  curandStateSobol32_t state;
  curand_init(vectors, offsets[index], &state);
  ROW(curand_poisson(&state, few[index]));
  ROW(curand_poisson(&state, many[index]));
}

/* The square histogram method of Marsaglia, Tsang and Wang. The histogram is arbitrary, because a histogram that
 * cuRAND computes depends on the libraries of the host. */
//! f64(0,1):16 u32(0,16):16 u64 -> rows:u32
extern "C" __global__ void discrete(double *sides, u32 *others, const u64 *seeds, u32 *out) {
  BEGIN(out);
  curandHistogramM2_st histogram{};
  histogram.V = sides;
  histogram.K = others;
  curandDistributionM2Shift_st shift{};
  shift.histogram = &histogram;
  shift.shift = 100;
  shift.length = 16;
  curandDiscreteDistribution_st distribution{};
  distribution.M2 = &shift;
  distribution.method = CURAND_M2;
  curandStateXORWOW_t xorwow;
  curand_init(seeds[index], 0, 0, &xorwow);
  ROW(curand_discrete(&xorwow, &distribution));
  curandStatePhilox4_32_10_t philox;
  curand_init(seeds[index], 0, 0, &philox);
  ROW(curand_discrete(&philox, &distribution));
  uint4 four = curand_discrete4(&philox, &distribution);
  ROW(four.x ^ four.y << 8 ^ four.z << 16 ^ four.w << 24);
}
