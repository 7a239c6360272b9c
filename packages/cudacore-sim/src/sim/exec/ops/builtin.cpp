/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the runtime environment: printf, assert, malloc, free, cudaGraphSetConditional. */
#include <cstdio>
#include <string>

#include "sim/exec/checker.h"
#include "sim/exec/heap.h"
#include "sim/exec/ops/memory.h"

namespace sim::exec {

namespace {

constexpr size_t max_string = 64 * 1024; /* longer strings are cut, because their terminator is probably missing */

std::string read_string(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address) {
  if (!address)
    return "(null)";
  std::string text;
  while (text.size() < max_string) {
    const std::byte *at = locate<StateSpace::generic>(w, ins, lane, address + text.size(), 1, false);
    char c = static_cast<char>(load_relaxed<uint8_t>(at));
    if (!c)
      break;
    text += c;
  }
  return text;
}

/* Reads the arguments of printf. The compiler aligns each argument to its own size. */
class Arguments {
public:
  Arguments(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address)
      : w_(w), ins_(ins), lane_(lane), at_(address) {}

  uint64_t take(uint32_t bytes) {
    ++taken_;
    at_ = (at_ + bytes - 1) & ~uint64_t{bytes - 1};
    const std::byte *place = locate<StateSpace::generic>(w_, ins_, lane_, at_, bytes, false);
    at_ += bytes;
    uint64_t value = 0;
    std::memcpy(&value, place, bytes);
    return value;
  }
  uint64_t taken() const { return taken_; }

private:
  Warp &w_;
  const Instruction &ins_;
  uint32_t lane_;
  uint64_t at_;
  uint64_t taken_ = 0;
};

template <class T> void append(std::string &out, const std::string &spec, T value) {
  char buffer[512];
  int length = std::snprintf(buffer, sizeof buffer, spec.c_str(), value);
  if (length < 0)
    return;
  if (static_cast<size_t>(length) < sizeof buffer) {
    out.append(buffer, static_cast<size_t>(length));
    return;
  }
  std::string large(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(large.data(), large.size(), spec.c_str(), value);
  out.append(large, 0, static_cast<size_t>(length));
}

/* Formats text like printf on the device. Widths are limited, so that no format can request gigabytes of output. */
class Formatter {
public:
  Formatter(Warp &w, const Instruction &ins, uint32_t lane, uint64_t arguments)
      : w_(w), ins_(ins), lane_(lane), arguments_(w, ins, lane, arguments) {}

  std::string run(const std::string &format) {
    for (size_t i = 0; i < format.size();) {
      if (format[i] != '%') {
        out_ += format[i++];
      } else if (i + 1 < format.size() && format[i + 1] == '%') {
        out_ += '%';
        i += 2;
      } else {
        i = conversion(format, i);
      }
    }
    return std::move(out_);
  }
  /* The result of printf on the device: the number of arguments that were used, not the number of characters. */
  uint64_t arguments_used() const { return arguments_.taken(); }

private:
  std::string number(const std::string &format, size_t &i) {
    if (i < format.size() && format[i] == '*') {
      ++i;
      return std::to_string(static_cast<int32_t>(arguments_.take(4)) % 4096);
    }
    std::string digits;
    while (i < format.size() && format[i] >= '0' && format[i] <= '9')
      digits += format[i++];
    return digits.size() > 3 ? "4095" : digits;
  }

  size_t conversion(const std::string &format, size_t begin) {
    size_t i = begin + 1;
    std::string spec = "%";
    while (i < format.size() && std::string_view("-+ #0").find(format[i]) != std::string_view::npos)
      spec += format[i++];
    spec += number(format, i);
    bool known = true;
    if (i < format.size() && format[i] == '.') {
      spec += '.';
      known = i + 1 == format.size() || format[i + 1] != '*'; /* a width may be "*", but a precision may not */
      if (known)
        spec += number(format, ++i);
      else
        i += 2;
    }
    int longs = 0, halves = 0;
    bool wide = false;
    for (; i < format.size() && std::string_view("hljztL").find(format[i]) != std::string_view::npos; ++i) {
      longs += format[i] == 'l';
      halves += format[i] == 'h';
      wide = wide || format[i] == 'j' || format[i] == 'z' || format[i] == 't';
    }
    if (i >= format.size()) {
      out_ += format.substr(begin);
      return i;
    }
    std::string verbatim = format.substr(begin, i + 1 - begin);
    if (known)
      convert(spec, format[i], wide || longs, halves, verbatim);
    else
      out_ += verbatim;
    return i + 1;
  }

  void convert(const std::string &spec, char letter, bool wide, int halves, const std::string &verbatim) {
    switch (letter) {
    case 'd':
    case 'i': {
      auto value = static_cast<int64_t>(arguments_.take(wide ? 8 : 4));
      if (!wide)
        value = halves >= 2   ? int64_t{static_cast<int8_t>(value)}
                : halves == 1 ? int64_t{static_cast<int16_t>(value)}
                              : int64_t{static_cast<int32_t>(value)};
      return append(out_, spec + "lld", static_cast<long long>(value));
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
      uint64_t value = arguments_.take(wide ? 8 : 4);
      if (!wide && halves)
        value &= halves >= 2 ? 0xff : 0xffff;
      return append(out_, spec + "ll" + letter, static_cast<unsigned long long>(value));
    }
    case 'c':
      return append(out_, spec + "c", static_cast<int>(arguments_.take(4) & 0xff));
    case 'p':
      return append(out_, spec + "p", reinterpret_cast<void *>(arguments_.take(8)));
    case 's':
      return append(out_, spec + "s", read_string(w_, ins_, lane_, arguments_.take(8)).c_str());
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
      uint64_t bits = arguments_.take(8);
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return append(out_, spec + letter, value);
    }
    default:
      out_ += verbatim;
    }
  }

  Warp &w_;
  const Instruction &ins_;
  uint32_t lane_;
  Arguments arguments_;
  std::string out_;
};

[[noreturn]] void fail_assertion(Warp &w, const Instruction &ins, uint32_t lane, const std::vector<uint64_t> &a) {
  std::string expression = read_string(w, ins, lane, a[0]), file = read_string(w, ins, lane, a[1]);
  std::string function = read_string(w, ins, lane, a[3]);
  const Dim3 &block = w.block->index;
  auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
    return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
  };
  w.grid->print(file + ":" + std::to_string(static_cast<uint32_t>(a[2])) + ": " + function +
                    ": block: " + triple(block[0], block[1], block[2]) +
                    ", thread: " + triple(w.thread[0][lane], w.thread[1][lane], w.thread[2][lane]) + " Assertion `" +
                    expression + "` failed.\n",
                true);
  w.fault(FaultKind::assertion, ins, lane, "assertion `" + expression + "` failed");
}

} // namespace

void Warp::call_builtin(const Instruction &ins, uint32_t lanes, const Function &callee) {
  const CallSite &site = grid->program.calls[ins.target];
  for_lanes(lanes, [&](uint32_t lane) {
    std::vector<uint64_t> arguments;
    for (const ValueLocation &place : site.arguments)
      arguments.push_back(read_value(place, lane));
    uint64_t result = 0;
    switch (callee.builtin) {
    case Builtin::vprintf: {
      Formatter formatter(*this, ins, lane, arguments[1]);
      grid->print(formatter.run(read_string(*this, ins, lane, arguments[0])));
      result = formatter.arguments_used();
      break;
    }
    case Builtin::assert_fail:
      fail_assertion(*this, ins, lane, arguments);
    case Builtin::malloc:
      if (grid->launch.heap)
        result = grid->launch.heap->allocate(arguments[0], grid->launch.heap_bytes, grid->launch.checks.init);
      if (grid->checker && result)
        grid->checker->allocates(result, arguments[0]);
      break;
    case Builtin::free:
      if (arguments[0] && (!grid->launch.heap || !grid->launch.heap->free(arguments[0])))
        access_fault(FaultKind::illegal_address, ins, lane, arguments[0], 0, false, "heap",
                     "free() of what malloc() did not give, or twice");
      break;
    case Builtin::set_condition:
      if (!grid->launch.set_condition || !grid->launch.set_condition(arguments[0], static_cast<uint32_t>(arguments[1])))
        access_fault(FaultKind::illegal_address, ins, lane, arguments[0], 0, false, "condition",
                     "cudaGraphSetConditional() of what is no conditional handle of a graph");
      break;
    case Builtin::none:
      break;
    }
    if (!site.results.empty())
      write_value(site.results[0], lane, result);
    if (local_written(lane))
      set_written(site.results, local_base[lane], lane);
  });
}

} // namespace sim::exec
