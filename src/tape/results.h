// Stores the results of an operator's call in the tape's registers.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tape/tape.h"

namespace gramme::native {

/// Throws if the number of tensors differs from the recording's, since later instructions read each register.
void check_count(size_t tensors, size_t registers, const Instruction& instruction);

inline void put(std::vector<at::Tensor>&& tensors, const std::vector<Register>& registers,
                const Instruction& instruction, Run& run) {
  check_count(tensors.size(), registers.size(), instruction);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (registers[i] != kNone) run.own[registers[i]] = std::move(tensors[i]);
}

/// Stores one result of a compiled call, by its C++ type; throws c10::Error if the type does not fit its place. The
/// primary template is for results that are no new tensor, such as references to arguments.
template <class T>
class Outlet {
 public:
  explicit Outlet(const OperatorResult& result) {
    TORCH_CHECK(result.kind == OperatorResult::Dropped, "this result can only be dropped");
  }
  template <class Value>
  void put(Value&&, const Instruction&, Run&) const {}
};

template <>
class Outlet<at::Tensor> {
 public:
  explicit Outlet(const OperatorResult& result) {
    TORCH_CHECK(result.kind != OperatorResult::Tensors, "the result is one tensor");
    if (result.kind == OperatorResult::Tensor) register_ = result.registers.at(0);
  }
  void put(at::Tensor&& tensor, const Instruction&, Run& run) const {
    if (register_ != kNone) run.own[register_] = std::move(tensor);
  }

 private:
  Register register_ = kNone;
};

template <>
class Outlet<std::vector<at::Tensor>> {
 public:
  explicit Outlet(const OperatorResult& result)
      : dropped_(result.kind == OperatorResult::Dropped), registers_(result.registers) {
    TORCH_CHECK(result.kind != OperatorResult::Tensor, "the result is a list");
  }
  void put(std::vector<at::Tensor>&& tensors, const Instruction& instruction, Run& run) const {
    if (!dropped_) native::put(std::move(tensors), registers_, instruction, run);
  }

 private:
  bool dropped_;
  std::vector<Register> registers_;
};

/// Stores everything that a call returns.
template <class R>
class Outlets {
 public:
  explicit Outlets(const std::vector<OperatorResult>& results) : only_(results.at(0)) {}
  void put(R&& result, const Instruction& instruction, Run& run) const {
    only_.put(std::forward<R>(result), instruction, run);
  }

 private:
  Outlet<R> only_;
};

template <>
class Outlets<void> {
 public:
  explicit Outlets(const std::vector<OperatorResult>&) {}
};

template <class... T>
class Outlets<std::tuple<T...>> {
 public:
  explicit Outlets(const std::vector<OperatorResult>& results) : Outlets(results, std::index_sequence_for<T...>()) {}
  void put(std::tuple<T...>&& results, const Instruction& instruction, Run& run) const {
    put(std::move(results), instruction, run, std::index_sequence_for<T...>());
  }

 private:
  template <size_t... i>
  Outlets(const std::vector<OperatorResult>& results, std::index_sequence<i...>) : outlets_(results.at(i)...) {}
  template <size_t... i>
  void put(std::tuple<T...>&& results, const Instruction& instruction, Run& run, std::index_sequence<i...>) const {
    (std::get<i>(outlets_).put(std::get<i>(std::move(results)), instruction, run), ...);
  }

  std::tuple<Outlet<T>...> outlets_;
};

}  // namespace gramme::native
