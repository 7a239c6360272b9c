// The index of this thread's element.
inline __device__ unsigned first() { return blockIdx.x * BLOCK + threadIdx.x; }
