/* SPDX-License-Identifier: Apache-2.0 */
/* libcu++: the parts of the C++ standard library that run on a device. */
//! cuda: 13
#include "rows.cuh"
#include <cuda/functional>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/bitset>
#include <cuda/std/chrono>
#include <cuda/std/complex>
#include <cuda/std/expected>
#include <cuda/std/functional>
#include <cuda/std/inplace_vector>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/ratio>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <cuda/std/variant>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if __has_include(<cuda/std/algorithm>) /* in quotes, because machine.py would treat headers in <> as required */
#include "cuda/std/algorithm"
#else
#include "cuda/std/__algorithm_"
#endif

namespace std_ = cuda::std;

//! u32 u64 -> rows:u64
extern "C" __global__ void std_bit(const u32 *a, const u64 *b, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  u64 y = b[index];
  ROW(std_::countl_zero(x));
  ROW(std_::countr_zero(x));
  ROW(std_::countl_one(y));
  ROW(std_::countr_one(y));
  ROW(std_::popcount(y));
  ROW(std_::rotl(x, int(y & 63) - 32));
  ROW(std_::rotr(y, int(x & 127) - 64));
  ROW(std_::has_single_bit(x));
  ROW(std_::bit_ceil(x >> 1));
  ROW(std_::bit_floor(y));
  ROW(std_::bit_width(x));
  ROW(std_::countl_zero(u8(x)));
  ROW(std_::countr_zero(u16(x)));
  ROW(std_::rotl(u8(x), 3));
  ROW(std_::bit_cast<float>(x));
}

//! i32 i32 u64 -> rows:u64
extern "C" __global__ void std_numeric(const i32 *a, const i32 *b, const u64 *c, u64 *out) {
  BEGIN(out);
  i32 x = a[index] / 2, y = b[index] / 2;
  ROW(std_::gcd(u32(x), u32(y)));
  ROW(std_::gcd(i64(x), i64(y)));
  ROW(std_::lcm(u64(u32(x)), u64(u32(y))));
  ROW(std_::midpoint(a[index], b[index]));
  ROW(std_::midpoint(c[index], c[255 - index]));
  u32 values[6], sums[6];
  for (int i = 0; i < 6; ++i)
    values[i] = u32(x) * (i + 1) ^ u32(y) >> i;
  ROW(std_::accumulate(values, values + 6, 7u));
  ROW(std_::reduce(values, values + 6, 1u, std_::multiplies<>{}));
  ROW(std_::inner_product(values, values + 3, values + 3, 0u));
  ROW(std_::transform_reduce(values, values + 6, 0u, std_::bit_xor<>{}, std_::negate<>{}));
  std_::partial_sum(values, values + 6, sums);
  ROW(sums[4]);
  std_::exclusive_scan(values, values + 6, sums, 3u);
  ROW(sums[5]);
  std_::adjacent_difference(values, values + 6, sums);
  ROW(sums[3]);
  std_::iota(sums, sums + 6, values[2]);
  ROW(sums[5]);
}

//! i32:1024 i32 -> rows:i64
extern "C" __global__ void std_algorithms(const i32 *a, const i32 *b, i64 *out) {
  BEGIN(out);
  std_::array<i32, 4> first{a[4 * index], a[4 * index + 1], a[4 * index + 2], a[4 * index + 3]}, second = first;
  std_::array<i32, 12> all{};
  for (int i = 0; i < 12; ++i)
    all[i] = first[i % 4] >> i ^ b[index];
  ROW(*std_::max_element(all.begin(), all.end()));
  ROW(std_::min_element(all.begin(), all.end()) - all.begin());
  ROW(std_::count_if(all.begin(), all.end(), [](i32 x) { return x > 0; }));
  ROW(std_::find(all.begin(), all.end(), all[index % 12]) - all.begin());
  std_::make_heap(all.begin(), all.end());
  ROW(all.front());
  std_::sort_heap(all.begin(), all.end());
  ROW(all[index % 12]);
  ROW(std_::lower_bound(all.begin(), all.end(), b[index]) - all.begin());
  ROW(std_::upper_bound(all.cbegin(), all.cend(), all[5]) - all.cbegin());
  ROW(std_::unique(all.begin(), all.end()) - all.begin());
  std_::rotate(all.begin(), all.begin() + index % 12, all.end());
  ROW(all[3]);
  std_::reverse(second.begin(), second.end());
  ROW(second[1]);
  ROW(std_::equal(all.begin(), all.begin() + index % 3, all.rbegin()));
  ROW((first < second) + 2 * (first == second));
  second.fill(b[index]);
  ROW(second.back());
  ROW(std_::clamp(first[0], -1000, 1000));
  ROW(std_::partition(first.begin(), first.end(), [](i32 x) { return x & 1; }) - first.begin());
}

//! u32 f64(-9,9) -> rows:u64
extern "C" __global__ void std_tuple(const u32 *a, const double *b, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  auto tuple = std_::make_tuple(x, b[index], u8(x >> 3));
  ROW(std_::get<0>(tuple));
  ROW(std_::get<double>(tuple));
  ROW(std_::apply([](u32 p, double q, u8 r) { return i64(p) + i64(q) * r; }, tuple));
  auto joined = std_::tuple_cat(tuple, std_::make_pair(i8(x), x * 5ull));
  ROW(std_::tuple_size<decltype(joined)>::value + std_::get<4>(joined));
  ROW(std_::get<3>(joined));
  u32 p;
  double q;
  std_::tie(p, q, std_::ignore) = tuple;
  ROW(q * p);
  ROW(tuple < std_::make_tuple(x, 0.0, u8(9)));
  auto [l, m, n] = tuple;
  ROW(l + n);
  std_::pair<u32, u32> one(x & 3, x >> 2), other(1, 5);
  ROW((one < other) + 2 * (one == other));
  std_::swap(one, other);
  ROW(one.second ^ other.first << 8);
  ROW(std_::exchange(other.second, 12u) + other.second);
}

__device__ std_::optional<u32> half_of(u32 x) { return x & 1 ? std_::optional<u32>() : std_::optional<u32>(x / 2); }
__device__ std_::expected<u32, i32> divide(u32 x, u32 y) {
  if (y == 0)
    return std_::unexpected<i32>(-1);
  return x / y;
}

//! u32 u32(0,5) -> rows:u32
extern "C" __global__ void std_optional(const u32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  u32 x = a[index];
  auto half = half_of(x);
  ROW(half.has_value());
  ROW(half.value_or(77));
  if (half)
    half = half_of(*half);
  ROW(half ? *half : 1);
  half.emplace(x * 3);
  ROW(*half);
  half.reset();
  ROW(half == std_::nullopt);
  ROW(std_::max(half, half_of(x)).value_or(5));
  auto quotient = divide(x, b[index]);
  ROW(quotient.has_value() ? *quotient : u32(quotient.error()));
  ROW(quotient.value_or(3));
}

struct Shout {
  u32 times;
};

//! u32 -> rows:u64
extern "C" __global__ void std_variant(const u32 *a, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  std_::variant<u32, double, Shout, i64> any;
  if (x % 4 == 1)
    any = double(x) / 4;
  else if (x % 4 == 2)
    any = Shout{x >> 4};
  else if (x % 4 == 3)
    any = i64(x) * -7;
  else
    any = x;
  ROW(any.index());
  struct Visit {
    __device__ i64 operator()(u32 v) const { return v; }
    __device__ i64 operator()(double v) const { return i64(v * 8); }
    __device__ i64 operator()(Shout v) const { return v.times * 100; }
    __device__ i64 operator()(i64 v) const { return v - 1; }
  };
  ROW(std_::visit(Visit{}, any));
  ROW(std_::holds_alternative<Shout>(any));
  auto *number = std_::get_if<double>(&any);
  ROW(number ? *number : -1.0);
  any.emplace<1>(0.5);
  ROW(std_::get<1>(any));
}

/* Complex numbers without special values. Quotients and functions have error bounds. */
//! f32(-8,8):512 f64(-8,8):512 -> rows:f64
extern "C" __global__ void std_complex(const float *a, const double *b, double *out) {
  BEGIN(out);
  std_::complex<float> x(a[2 * index], a[2 * index + 1]), y = std_::conj(x) + 1.5f;
  std_::complex<double> u(b[2 * index], b[2 * index + 1]), v(b[511 - 2 * index], b[510 - 2 * index]);
  ROW(double((x * y).real()));
  ROW(double((x * y - x).imag()));
  ROW((u * v).real());
  ROW((u * v + u).imag());
  ROW(std_::norm(u));
  ROW(double(std_::norm(x)));
  ULP(8, (u / v).real());
  ULP(8, (u / 3.0).imag());
  ULP(4, std_::abs(u));
  ULP(4, std_::arg(v));
  ABS(1e-11, std_::exp(u).real());
  ABS(1e-14, std_::sqrt(v).imag());
  ABS(1e-14, std_::log(v).real());
  ABS(1e-12, std_::polar(std_::abs(u), 0.25).imag());
}

//! u32:600 -> u32:600 u32:4 grid=1 block=64
extern "C" __global__ void std_mdspan(const u32 *a, u32 *out, u32 *facts) {
  std_::mdspan<const u32, std_::extents<int, 20, std_::dynamic_extent>> from(a, 30);
  std_::mdspan<u32, std_::dextents<int, 2>, std_::layout_left> to(out, 20, 30);
  for (int i = threadIdx.x; i < 600; i += blockDim.x) {
#if defined(__cpp_multidimensional_subscript)
    to[i / 30, i % 30] = from[i / 30, i % 30] + i;
#else
    to(i / 30, i % 30) = from(i / 30, i % 30) + i;
#endif
  }
  if (threadIdx.x == 0) {
    facts[0] = from.extent(1) * 100 + from.static_extent(0);
    facts[1] = to.stride(1);
    facts[2] = to.size() + from.rank();
    facts[3] = to.mapping().required_span_size() * 2 + from.is_exhaustive();
  }
}

//! u32:1024 -> rows:u32
extern "C" __global__ void std_span(const u32 *a, u32 *out) {
  BEGIN(out);
  std_::span<const u32> all(a, 1024), own = all.subspan(4 * index, 4);
  std_::span<const u32, 2> last = own.last<2>();
  u32 sum = 0;
  for (u32 x : own)
    sum = sum * 3 + x;
  ROW(sum);
  ROW(last[1] ^ own.front());
  ROW(u32(own.size_bytes()) + u32(all.size()) * 100);
  ROW(u32(std_::as_bytes(last)[5]));
  std_::bitset<40> bits(u64(own[0]) << 8 | (own[1] & 0xff));
  ROW(u32(bits.count()));
  bits.flip(index % 40);
  ROW(u32((bits << 3).to_ullong() >> 8));
  ROW(bits.any() + 2 * bits.test(7));
}

//! i64(-3000000000000,3000000000000) -> rows:i64
extern "C" __global__ void std_chrono(const i64 *a, i64 *out) {
  BEGIN(out);
  namespace time = std_::chrono;
  time::milliseconds ms(a[index]);
  ROW(time::duration_cast<time::seconds>(ms).count());
  ROW(time::floor<time::minutes>(ms).count());
  ROW(time::ceil<time::hours>(ms).count());
  ROW(time::round<time::seconds>(ms).count());
  ROW((ms % time::seconds(7)).count());
  ROW((ms + time::hours(3)).count());
  ROW(ms < time::hours(5));
  ROW(time::abs(ms).count());
  auto day = time::sys_days(time::floor<time::days>(ms));
  time::year_month_day date(day);
  ROW(int(date.year()) * 10000 + int(unsigned(date.month()) * 100 + unsigned(date.day())));
  ROW(time::weekday(day).c_encoding());
  ROW(date.year().is_leap() + 2 * date.ok());
  ROW(time::sys_days(date + time::months(1)).time_since_epoch().count());
  ROW(i64(std_::ratio_multiply<std_::ratio<6, 35>, std_::ratio<7, 4>>::num) * 100 + std_::micro::den);
}

//! u32:2048 -> rows:u32
extern "C" __global__ void std_containers_and_calls(const u32 *a, u32 *out) {
  BEGIN(out);
  std_::inplace_vector<u32, 8> kept;
  for (int i = 0; i < 8; ++i)
    if (a[8 * index + i] & 1)
      kept.push_back(a[8 * index + i]);
  ROW(u32(kept.size()));
  if (kept.size() > 2)
    kept.erase(kept.begin() + 1);
  u32 sum = 0;
  for (u32 x : kept)
    sum = sum * 7 + x;
  ROW(sum);
  auto add = [](u32 x, u32 y) { return x * 2 + y; };
  ROW(std_::invoke(add, a[index], 3u));
  ROW(std_::not_fn([](u32 x) { return x > 100; })(a[index]));
  ROW(std_::plus<>{}(a[index], u32(std_::numeric_limits<i16>::max())));
  ROW(cuda::maximum<>{}(a[index], a[index + 1]));
  ROW(cuda::minimum<u32>{}(a[index], a[index + 1]));
  ROW(cuda::proclaim_return_type<u32>(add)(a[index], 9));
}
