// The operators that the autograd engine called for one piece of a graph, as a tape.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/state.h"
#include "training/converted.h"
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

class BackwardTape : public ConvertedTape {
 public:
  /// Runs the piece by the engine and records what it calls.
  struct Record {
    Record(EagerGraph& graph, size_t piece, BackwardKey key, const torch::autograd::variable_list& gradients,
           Pass pass);
    torch::autograd::variable_list found;
    std::shared_ptr<const BackwardTape> tape;  // null if the calls cannot be repeated
    std::string why;                           // why there is no tape
  };

  BackwardTape(BackwardKey key, Parts parts) : ConvertedTape(std::move(parts)), key_(std::move(key)) {}
  const BackwardKey& key() const { return key_; }

 private:
  BackwardKey key_;
};

}  // namespace gramme::native
