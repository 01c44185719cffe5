// The operators that the autograd engine called for one piece of a graph, as a tape.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/state.h"
#include "tape/frames.h"
#include "training/eager_graph.h"

namespace gramme::native {

/// Everything that decides which operators a piece's formulas call: layouts of gradients, and which results are wanted.
struct BackwardKey {
  /// Nullopt if a gradient is no plain CPU tensor, or if formulas must not be replaced now.
  static std::optional<BackwardKey> read(const torch::autograd::variable_list& gradients, std::vector<bool> wanted);
  bool operator==(const BackwardKey&) const = default;

  std::vector<std::optional<c10::DimVector>> strides;  // by slot; nullopt: no gradient
  std::vector<bool> wanted;                            // by use
  aten::GlobalState state;
  KernelSettings settings;
};

/// Where an input of a backward tape comes from.
struct BackwardSource {
  enum Kind : uint8_t { Slot, Kept } kind;
  int32_t index;  // slot, or register of the flat tape
};

class BackwardTape {
 public:
  /// Runs the piece by the engine and records what it calls.
  struct Record {
    Record(EagerGraph& graph, size_t piece, BackwardKey key, const torch::autograd::variable_list& gradients,
           Pass pass);
    torch::autograd::variable_list found;
    std::shared_ptr<const BackwardTape> tape;  // null if the calls cannot be repeated
    std::string why;                           // why there is no tape
  };

  const BackwardKey& key() const { return key_; }
  /// The inputs of `run`, in order.
  const std::vector<BackwardSource>& sources() const { return sources_; }
  /// Receives the gradient of a use as soon as the tape no longer needs it.
  using Taker = std::function<void(size_t use, at::Tensor&& gradient)>;
  /// Returns the gradients by use; those marked in `taken` go to `take` instead.
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
  /// The instruction after which the tape neither needs a use's gradient nor writes to its memory.
  struct End {
    size_t instructions, use;
    bool moves;  // no later End has the same register
  };
  std::vector<End> ends_;  // in order of instructions
  mutable LockedFramePool frames_;
};

}  // namespace gramme::native
