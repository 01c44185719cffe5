// Templates over operation and element type, and the tables that choose an instance.
#include "passes/fused_kernels.h"

#include <cmath>
#include <complex>
#include <type_traits>

namespace gramme::native {
namespace {

template <class T>
struct Read {
  Read(const Spot& spot, char* const* bases)
      : at(reinterpret_cast<const T*>(bases[spot.base] + spot.offset)), step(spot.steps) {}
  T operator[](int32_t i) const { return at[step ? i : 0]; }
  const T* at;
  bool step;
};

template <class T>
T* result(const Kernel& kernel, char* const* bases) {
  return reinterpret_cast<T*>(bases[kernel.out.base] + kernel.out.offset);
}

/// Base addresses, with literals as additional bases.
struct Bases {
  Bases(const Kernel& kernel, char* const* bases) : kernel(kernel), bases(bases) {}
  template <class T>
  Read<T> read(int which) const {
    const Spot& spot = kernel.in[which];
    if (spot.base >= 0) return Read<T>(spot, bases);
    char* literal = const_cast<char*>(kernel.literal[which == 0 ? 0 : which == 1 ? 1 : 0]);
    return Read<T>({0, 0, false}, &literal);
  }
  const Kernel& kernel;
  char* const* bases;
};

// ---- operations: integers wrap around, as in PyTorch's kernels

template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
/// a + alpha * b of complex numbers as PyTorch's kernels compute it: zero times a non-finite number is NaN.
template <int alpha>
struct AddComplex {
  std::complex<double> operator()(std::complex<double> a, std::complex<double> b) const {
    return {a.real() + (alpha * b.real() - 0.0 * b.imag()), a.imag() + (alpha * b.imag() + 0.0 * b.real())};
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : a < b ? b : a;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : b < a ? b : a;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Negative {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<uint64_t>(a));
    else
      return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return a < 0 ? Negative()(a) : a;
    else
      return std::abs(a);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return !a;
  }
};

template <class T, class R, class Apply>
void unary(const Kernel& kernel, char* const* bases) {
  const Read<T> a = Bases(kernel, bases).read<T>(0);
  R* out = result<R>(kernel, bases);
  for (int32_t i = 0; i < kernel.count; ++i) out[i] = Apply()(a[i]);
}

template <class T, class R, class Apply>
void binary(const Kernel& kernel, char* const* bases) {
  const Bases all(kernel, bases);
  const Read<T> a = all.read<T>(0), b = all.read<T>(1);
  R* out = result<R>(kernel, bases);
  if (a.step && b.step)
    for (int32_t i = 0; i < kernel.count; ++i) out[i] = Apply()(a.at[i], b.at[i]);
  else if (a.step)
    for (int32_t i = 0; i < kernel.count; ++i) out[i] = Apply()(a.at[i], *b.at);
  else
    for (int32_t i = 0; i < kernel.count; ++i) out[i] = Apply()(*a.at, b[i]);
}

/// Selects by bytes, without conversion.
template <class T>
void choose(const Kernel& kernel, char* const* bases) {
  const Read<bool> condition(kernel.in[0], bases);
  const Read<T> a(kernel.in[1], bases), b(kernel.in[2], bases);
  T* out = result<T>(kernel, bases);
  for (int32_t i = 0; i < kernel.count; ++i) out[i] = condition[i] ? a[i] : b[i];
}

template <class To, class From>
void move(const Kernel& kernel, char* const* bases) {
  const Read<From> from = Bases(kernel, bases).read<From>(0);
  To* out = result<To>(kernel, bases);
  if (!kernel.index.empty())
    for (int32_t i = 0; i < kernel.count; ++i) out[i] = static_cast<To>(from.at[kernel.index[i]]);
  else
    for (int32_t i = 0; i < kernel.count; ++i) out[i] = static_cast<To>(from[i]);
}

/// Sums from zero, as PyTorch's kernels do; of floats two at most, so their order does not matter.
template <class From>
void add_floats(const Kernel& kernel, char* const* bases) {
  const Read<From> from(kernel.in[0], bases);
  const int64_t each = kernel.in[1].offset;
  From* out = result<From>(kernel, bases);
  for (int32_t i = 0; i < kernel.count; ++i) {
    From total = 0;
    for (int64_t j = 0; j < each; ++j) total += from[static_cast<int32_t>(i * each + j)];
    out[i] = total;
  }
}

/// The first extreme element; NaN wins.
template <class From, class Passes>
void find_first(const Kernel& kernel, char* const* bases) {
  const Read<From> from(kernel.in[0], bases);
  const int64_t each = kernel.in[1].offset;
  auto* out = result<int64_t>(kernel, bases);
  for (int32_t i = 0; i < kernel.count; ++i) {
    const From* block = from.at + (from.step ? i * each : 0);
    int64_t first = 0;
    for (int64_t j = 1; j < each && from.step; ++j) {
      if (block[first] != block[first]) break;
      if (block[j] != block[j] || Passes()(block[j], block[first])) first = j;
    }
    out[i] = first;
  }
}

template <class From>
void sum(const Kernel& kernel, char* const* bases) {
  const Read<From> from(kernel.in[0], bases);
  const int64_t each = kernel.in[1].offset;
  auto* out = result<int64_t>(kernel, bases);
  for (int32_t i = 0; i < kernel.count; ++i) {
    uint64_t total = 0;
    for (int64_t j = 0; j < each; ++j) total += static_cast<uint64_t>(static_cast<int64_t>(from[i * each + j]));
    out[i] = static_cast<int64_t>(total);
  }
}

// ---- by type

template <class Visit>
KernelRun for_float(c10::ScalarType type, Visit&& visit) {
  if (type == c10::kDouble) return visit(double());
  return type == c10::kFloat ? visit(float()) : nullptr;
}

template <class Visit>
KernelRun for_whole(c10::ScalarType type, Visit&& visit) {
  if (type == c10::kLong) return visit(int64_t());
  if (type == c10::kInt) return visit(int32_t());
  return type == c10::kByte ? visit(uint8_t()) : nullptr;
}

template <class Visit>
KernelRun for_number(c10::ScalarType type, Visit&& visit) {
  KernelRun found = for_float(type, visit);
  return found ? found : for_whole(type, visit);
}

template <class Visit>
KernelRun for_any(c10::ScalarType type, Visit&& visit) {
  return type == c10::kBool ? visit(bool()) : for_number(type, visit);
}

template <class Apply>
KernelRun same_type(c10::ScalarType type) {
  return for_number(type, []<class T>(T) -> KernelRun { return &binary<T, T, Apply>; });
}
template <class Apply>
KernelRun comparison(c10::ScalarType type) {
  return for_any(type, []<class T>(T) -> KernelRun { return &binary<T, bool, Apply>; });
}
template <class Apply>
KernelRun of_bits(c10::ScalarType type) {
  if (type == c10::kBool) return &binary<bool, bool, Apply>;
  return for_whole(type, []<class T>(T) -> KernelRun { return &binary<T, T, Apply>; });
}

KernelRun chooser(c10::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1:
      return &choose<uint8_t>;
    case 2:
      return &choose<uint16_t>;
    case 4:
      return &choose<uint32_t>;
    case 8:
      return &choose<uint64_t>;
    case 16:
      return &choose<std::complex<double>>;
    default:
      return nullptr;
  }
}

}  // namespace

KernelRun kernel_of(Operation operation, c10::ScalarType type) {
  switch (operation) {
    case Operation::Add:
      if (type == c10::kComplexDouble) return &binary<std::complex<double>, std::complex<double>, AddComplex<1>>;
      return same_type<Add>(type);
    case Operation::Subtract:
      if (type == c10::kComplexDouble) return &binary<std::complex<double>, std::complex<double>, AddComplex<-1>>;
      return same_type<Subtract>(type);
    case Operation::Multiply:
      return same_type<Multiply>(type);
    case Operation::Divide:
      return for_float(type, []<class T>(T) -> KernelRun { return &binary<T, T, Divide>; });
    case Operation::Maximum:
      return same_type<Maximum>(type);
    case Operation::Minimum:
      return same_type<Minimum>(type);
    case Operation::Equal:
      return comparison<std::equal_to<>>(type);
    case Operation::NotEqual:
      return comparison<std::not_equal_to<>>(type);
    case Operation::Less:
      return comparison<std::less<>>(type);
    case Operation::LessEqual:
      return comparison<std::less_equal<>>(type);
    case Operation::Greater:
      return comparison<std::greater<>>(type);
    case Operation::GreaterEqual:
      return comparison<std::greater_equal<>>(type);
    case Operation::And:
      return of_bits<And>(type);
    case Operation::Or:
      return of_bits<Or>(type);
    case Operation::Xor:
      return of_bits<Xor>(type);
    case Operation::Negative:
      return for_number(type, []<class T>(T) -> KernelRun { return &unary<T, T, Negative>; });
    case Operation::Absolute:
      return for_number(type, []<class T>(T) -> KernelRun { return &unary<T, T, Absolute>; });
    case Operation::Not:
      return type == c10::kBool ? &unary<bool, bool, Not> : nullptr;
    case Operation::Choose:
      return chooser(type);
  }
  return nullptr;
}

KernelRun mover(c10::ScalarType to, c10::ScalarType from) {
  if (to == c10::kComplexDouble && from == to) return &move<std::complex<double>, std::complex<double>>;
  if (to == c10::kComplexDouble && from == c10::kDouble) return &move<std::complex<double>, double>;
  const bool fixed = c10::isFloatingType(to) || to == c10::kBool || !c10::isFloatingType(from);
  if (!fixed) return nullptr;  // the float is no integer of the type
  return for_any(to, [&]<class To>(To) -> KernelRun {
    return for_any(from, []<class From>(From) -> KernelRun { return &move<To, From>; });
  });
}

KernelRun first_finder(c10::ScalarType from, bool largest) {
  return for_number(from, [&]<class T>(T) -> KernelRun {
    if (largest) return &find_first<T, std::greater<>>;
    return &find_first<T, std::less<>>;
  });
}

KernelRun summer(c10::ScalarType from) {
  if (c10::isFloatingType(from)) return for_float(from, []<class T>(T) -> KernelRun { return &add_floats<T>; });
  if (from == c10::kBool) return &sum<bool>;
  return for_whole(from, []<class T>(T) -> KernelRun { return &sum<T>; });
}

bool put_literal(const c10::Scalar& number, c10::ScalarType type, char* place) {
  if (number.isComplex() || number.isSymbolic()) return false;
  if (type == c10::kComplexDouble)
    return *reinterpret_cast<std::complex<double>*>(place) = {number.toDouble(), 0}, true;
  if (type == c10::kDouble) return *reinterpret_cast<double*>(place) = number.toDouble(), true;
  if (type == c10::kFloat) return *reinterpret_cast<float*>(place) = static_cast<float>(number.toDouble()), true;
  if (type == c10::kBool) {
    if (!number.isBoolean()) return false;
    return *reinterpret_cast<bool*>(place) = number.toBool(), true;
  }
  if (number.isFloatingPoint()) return false;
  const int64_t whole = number.isBoolean() ? number.toBool() : number.toLong();
  if (type == c10::kLong) return *reinterpret_cast<int64_t*>(place) = whole, true;
  if (type == c10::kInt && whole == static_cast<int32_t>(whole))
    return *reinterpret_cast<int32_t*>(place) = static_cast<int32_t>(whole), true;
  if (type == c10::kByte && whole == static_cast<uint8_t>(whole))
    return *reinterpret_cast<uint8_t*>(place) = static_cast<uint8_t>(whole), true;
  return false;
}

}  // namespace gramme::native
