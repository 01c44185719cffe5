// The template that the files signatures_*.cpp instantiate: binder() for one shard each.
#pragma once
#include <array>
#include <utility>

#include "tape/typed.h"

namespace gramme::native {

template <int number>
struct Signature;

#define OPERATOR(number, name)
#define SIGNATURE(number, ...) \
  template <>                  \
  struct Signature<number> {   \
    using Type = __VA_ARGS__;  \
  };
#include "torch_signatures.def"
#undef SIGNATURE
constexpr int kSignatures = 0
#define SIGNATURE(number, ...) +1
#include "torch_signatures.def"
    ;
#undef SIGNATURE
#undef OPERATOR

template <int shard>
Binder binder(int index) {
  static constexpr auto kBinders = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array<Binder, sizeof...(i)>{&bind_typed<typename Signature<shard + kShards * i>::Type>...};
  }(std::make_integer_sequence<int, (kSignatures - shard + kShards - 1) / kShards>());
  return kBinders.at(static_cast<size_t>(index));
}

}  // namespace gramme::native
