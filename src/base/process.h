// The variables that outlive a call. Each is a field of a struct, which says beside it what protects it:
//
//   struct State {
//     std::unordered_map<PyObject*, Traits> known;  // GIL: by operator
//     uint64_t kernels = 0;                         // GIL, a word: the generation that they were read in
//   };
//   OfProcess<State> state;  // state->known; costs what a plain variable of a namespace costs
//
// tools/check_state.py refuses others, and lists all in docs/state.md, which has the words for protections.
#pragma once
#include <cstddef>
#include <new>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gramme {

/// One struct, in the list of all.
class ProcessState {
 public:
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

  /// Puts every struct that may be dropped into the state in which the module is loaded, the newest first. With the
  /// GIL, while nothing of gramme runs and no entry is left. For tests.
  static void drop_all();
  /// What structs with a size() hold, by file.
  static std::vector<std::pair<std::string, size_t>> sizes();
  /// Called at the end of the module's load: from now on no AtLoad is filled.
  static void end_load();

 protected:
  explicit ProcessState(const char* file) : file_(file), older_(std::exchange(newest, this)) {}
  ~ProcessState() = default;
  static bool is_loading() { return loading; }
  [[noreturn]] static void refuse_late(const char* file);

 private:
  virtual void renew() = 0;
  virtual size_t size() const = 0;

  static inline constinit ProcessState* newest = nullptr;
  static inline constinit bool loading = true;
  const char* const file_;
  ProcessState* const older_;
};

/// Holds a struct in place from the load of the module on. It has no destructor: objects of Python and of torch die
/// after static destructors. No std::launder: with it GCC loads the address first, an instruction for each access.
template <class State, bool kDropped>
class HeldState final : ProcessState {
 public:
  explicit HeldState(std::source_location at = std::source_location::current()) : ProcessState(at.file_name()) {
    new (place_) State();
  }
  State* operator->() { return get(); }
  State& operator*() { return *get(); }

 private:
  State* get() { return reinterpret_cast<State*>(place_); }
  const State* get() const { return reinterpret_cast<const State*>(place_); }
  /// What the old one held is released last, since that may run Python and come here again.
  void renew() override {
    if constexpr (kDropped && std::is_trivially_destructible_v<State>) {
      new (place_) State();
    } else if constexpr (kDropped) {
      const State last(std::move(*get()));
      get()->~State();
      new (place_) State();
    }
  }
  size_t size() const override {
    if constexpr (requires { get()->size(); })
      return get()->size();
    else
      return 0;
  }

  alignas(State) std::byte place_[sizeof(State)];
};

/// Dropped by drop_all(), and made anew.
template <class State>
using OfProcess = HeldState<State, true>;

/// Never dropped: something outside of it points into it, or it tells what was done to CPython or torch.
template <class State>
using Lasting = HeldState<State, false>;

/// Filled while the module is loaded, constant afterwards: it needs no protection.
template <class Table>
class AtLoad final : ProcessState {
 public:
  explicit AtLoad(std::source_location at = std::source_location::current()) : ProcessState(at.file_name()) {
    new (place_) Table();
  }
  Table& fill(std::source_location at = std::source_location::current()) {
    if (!is_loading()) refuse_late(at.file_name());
    return *reinterpret_cast<Table*>(place_);
  }
  const Table* operator->() const { return reinterpret_cast<const Table*>(place_); }
  const Table& operator*() const { return *operator->(); }

 private:
  void renew() override {}
  size_t size() const override { return 0; }

  alignas(Table) std::byte place_[sizeof(Table)];
};

}  // namespace gramme
