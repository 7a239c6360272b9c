/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of results: a row for each expression, a column for each thread. Only the tests read the bounds. */
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

constexpr int row_length = 256;

/* Stores the results of one thread. Results narrower than a word are zero-extended. */
template <class Word> struct Rows {
  Word *next;
  template <class T> __device__ __forceinline__ void put_one(T value) {
    static_assert(sizeof(T) <= sizeof(Word), "a result does not fit into the table's words");
    Word word = 0;
    memcpy(&word, &value, sizeof value);
    *next = word;
    next += row_length;
  }
  template <class... T> __device__ __forceinline__ void put(T... values) { (put_one(values), ...); }
};

template <class Word> __device__ __forceinline__ Rows<Word> table_at(Word *first) { return {first}; }

#define BEGIN(out)                                                                                                     \
  const int index = blockIdx.x * blockDim.x + threadIdx.x;                                                             \
  auto rows = table_at(out + index)
#define ROW(...) rows.put(__VA_ARGS__)
#define ULP(bound, ...) rows.put(__VA_ARGS__)
#define ABS(bound, ...) rows.put(__VA_ARGS__)

/* A kernel of a table. It writes to `out`. */
#define KERNEL(name, ...)                                                                                              \
  extern "C" __global__ void name(u32 *out) { __VA_ARGS__; }

/* Functions of one PTX instruction. */
#define PTX1(to, to_constraint, from, from_constraint, instruction)                                                    \
  ([](from a) {                                                                                                        \
    to d;                                                                                                              \
    asm(instruction " %0, %1;" : "=" to_constraint(d) : from_constraint(a));                                           \
    return d;                                                                                                          \
  })
#define PTX2(type, constraint, instruction)                                                                            \
  ([](type a, type b) {                                                                                                \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2;" : "=" constraint(d) : constraint(a), constraint(b));                                \
    return d;                                                                                                          \
  })
#define PTX3(type, constraint, instruction)                                                                            \
  ([](type a, type b, type c) {                                                                                        \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2, %3;" : "=" constraint(d) : constraint(a), constraint(b), constraint(c));             \
    return d;                                                                                                          \
  })

/* A property of a texture or a surface. */
#define QUERY(instruction, object)                                                                                     \
  ([](u64 handle) {                                                                                                    \
    u32 answer;                                                                                                        \
    asm volatile(instruction " %0, [%1];" : "=r"(answer) : "l"(handle));                                               \
    return answer;                                                                                                     \
  }(object))
