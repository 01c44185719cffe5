// Calls an operator by its C++ signature, without making IValues or reading the schema.
//
// Each signature costs a third of a second of compile time, so those of the table are compiled in kShards files:
// signatures_0.cpp has the signatures 0, 4, 8 …
#pragma once
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tape/results.h"
#include "tape/slots.h"
#include "tape/tape.h"

namespace gramme::native {

/// True if this call uses the instruction's keys instead of the dispatcher's choice.
inline bool goes_straight(const Instruction& instruction, const Run& run) {
  return run.below_autograd && !instruction.keys.empty();
}

template <class Signature>
class Typed;

template <class R, class... A>
class Typed<R(A...)> final : public Bound {
 public:
  explicit Typed(const OperatorCall& call) : Typed(call, std::index_sequence_for<A...>()) {}

  static void invoke(const Instruction& instruction, Run& run) {
    const auto& self = static_cast<const Typed&>(*instruction.bound);
    std::apply(
        [&](const Slot<A>&... slots) {
          if constexpr (std::is_void_v<R>)
            self.call(instruction, run, slots...);
          else
            self.results_.put(self.call(instruction, run, slots...), instruction, run);
        },
        self.slots_);
  }

 private:
  template <size_t... i>
  Typed(const OperatorCall& call, std::index_sequence<i...>)
      : op_(call.op.typed<R(A...)>()), slots_(call.arguments.at(i)...), results_(call.results) {}

  /// Objects returned by `get` live until the callee has returned or thrown.
  R call(const Instruction& instruction, const Run& run, const Slot<A>&... slots) const {
    if (goes_straight(instruction, run)) return op_.redispatch(instruction.keys, slots.get(run)...);
    return op_.call(slots.get(run)...);
  }

  c10::TypedOperatorHandle<R(A...)> op_;
  std::tuple<Slot<A>...> slots_;
  Outlets<R> results_;
};

/// Binds the instruction. Throws c10::Error, leaving it unchanged, if an argument or result does not match the
/// signature.
template <class Signature>
void bind_typed(Instruction& instruction) {
  instruction.bound = std::make_unique<Typed<Signature>>(*instruction.call);
  instruction.invoke = &Typed<Signature>::invoke;
  instruction.typed = true;
}

using Binder = void (*)(Instruction&);

constexpr int kShards = 4;

/// bind_typed for signature `shard + kShards * index`.
template <int shard>
Binder binder(int index);

}  // namespace gramme::native
