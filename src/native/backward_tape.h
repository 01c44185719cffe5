// What the engine called for one piece of a graph, as a tape.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/state.h"
#include "native/eager_graph.h"
#include "native/frames.h"

namespace gramme::native {

/// What decides which operators a piece's formulas call.
struct BackwardKey {
  /// None if a gradient is not of a plain tensor on the CPU, or formulas must not be replaced now.
  static std::optional<BackwardKey> read(const torch::autograd::variable_list& gradients, std::vector<bool> wanted);
  bool operator==(const BackwardKey&) const = default;

  std::vector<std::optional<c10::DimVector>> strides;  // by slot; none: no gradient
  std::vector<bool> wanted;                            // by use
  aten::GlobalState state;
  KernelSettings settings;
};

/// Where a tape finds a tensor that it is given.
struct BackwardSource {
  enum Kind : uint8_t { Slot, Kept } kind;
  int32_t index;  // of the slot; of the register of the flat tape
};

class BackwardTape {
 public:
  /// Carries out the piece by the engine and writes down what it calls.
  struct Record {
    Record(EagerGraph& graph, size_t piece, BackwardKey key, const torch::autograd::variable_list& gradients);
    torch::autograd::variable_list found;
    std::shared_ptr<const BackwardTape> tape;  // null if that cannot be called again for other tensors,
    std::string why;                           // and why
  };

  const BackwardKey& key() const { return key_; }
  /// What `run` is given, in that order.
  const std::vector<BackwardSource>& sources() const { return sources_; }
  /// Takes the gradient of a use away as soon as nothing in the tape needs it.
  using Taker = std::function<void(size_t use, at::Tensor&& gradient)>;
  /// Gradients by use, but for those that `taken` says, which go to `take`.
  torch::autograd::variable_list run(torch::autograd::variable_list&& given, const std::vector<bool>& taken = {},
                                     const Taker& take = {}) const;
  const Tape& tape() const { return *tape_; }

 private:
  BackwardTape(BackwardKey key, std::vector<BackwardSource> sources, std::unique_ptr<const Tape> tape)
      : key_(std::move(key)), sources_(std::move(sources)), tape_(std::move(tape)) {
    find_ends();
  }
  void find_ends();

  BackwardKey key_;
  std::vector<BackwardSource> sources_;
  std::unique_ptr<const Tape> tape_;
  /// After this many instructions nothing in the tape needs the gradient of the use, or writes to its memory.
  struct End {
    size_t instructions, use;
    bool moves;  // no later one is of the same register
  };
  std::vector<End> ends_;  // in that order
  mutable LockedFramePool frames_;
};

}  // namespace gramme::native
