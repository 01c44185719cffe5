// Observed calls of operators, as a tape below autograd.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/recorder.h"
#include "tape/frames.h"

namespace gramme::native {

/// Where an input of a backward tape comes from.
struct BackwardSource {
  enum Kind : uint8_t { Slot, Kept } kind;
  int32_t index;  // slot, or a number by which what the forward kept is known
};

/// What observed calls may read, beside what they made.
struct Origins {
  std::vector<Register> slots;                  // by slot; kNone: there is none
  std::unordered_map<Register, Register> kept;  // numbers of what is kept, by the recorder's registers
  bool local = false;  // distributed tensors called them: in any grad mode, and functional collectives among them
};

class ConvertedTape {
 public:
  struct Parts {
    std::vector<BackwardSource> sources;
    std::unique_ptr<const Tape> tape;
  };
  /// Nullopt if the calls cannot be repeated, and `why` says why. `leaving`: registers of what `run` returns; kNone for
  /// none.
  static std::optional<Parts> convert(const Recorder& recorder, const std::vector<Observed>& observed, Origins origins,
                                      const std::vector<Register>& leaving, std::string& why);
  explicit ConvertedTape(Parts parts) : sources_(std::move(parts.sources)), tape_(std::move(parts.tape)) {
    find_ends();
  }

  /// The inputs of `run`, in order.
  const std::vector<BackwardSource>& sources() const { return sources_; }
  /// Receives what leaves as a use's gradient as soon as the tape no longer needs it.
  using Taker = std::function<void(size_t use, at::Tensor&& gradient)>;
  /// Returns what leaves; those marked in `taken` go to `take` instead.
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& given, const std::vector<bool>& taken = {},
                              const Taker& take = {}) const;
  const Tape& tape() const { return *tape_; }

 private:
  void find_ends();

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
