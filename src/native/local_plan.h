// Tapes of a run on local tensors, made from what was observed below DTensor's dispatch.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "native/local_key.h"
#include "record/recorder.h"
#include "training/backward_tape.h"

namespace gramme::native {

/// A forward that was observed, and its calls.
struct LocalCalls {
  LocalKey key;
  std::unique_ptr<Recorder> recorder;
  std::vector<Observed> observed;
  std::vector<Register> inputs;  // kNone: no tensor
  std::vector<Register> outputs;
};

/// What is known for a key.
struct LocalPlan {
  LocalKey key;
  std::string why_not;                           // why the run is left to DTensor's dispatch; empty: it is not
  std::unique_ptr<const ConvertedTape> forward;  // gives the outputs, then what is kept
  uint64_t runs = 0;                             // GIL, a word

  /// A call of the forward, and where its result is kept; -1 if it is not.
  struct Call {
    std::string name;  // "aten::add.Tensor"
    int32_t kept;
  };
  // Of plans with a backward:
  std::unique_ptr<const BackwardTape> backward;  // of the output's gradient; BackwardSource::Kept: a register
  std::vector<Register> kept;                    // the recorder's registers that the forward keeps
  std::vector<Register> inputs;                  // the inputs' registers
  std::vector<Seen> forms;                       // the inputs' forms
  std::vector<bool> reads;                       // by input: whether the backward reads its memory
  std::vector<Owned<>> specs;                    // by use: the specification of its gradient; null for a plain one
  std::vector<Call> calls;
  bool saves = false;  // the backward reads something of the forward
  uint64_t nodes = 0;  // of autograd's graph
  std::string name;    // of the output's node
};

/// Completes a plan with a backward from `backward`, the calls that the engine made for the gradient in register
/// `slot`; returns why there is none, or an empty text. `leaving`: registers of the gradients.
std::string complete(LocalPlan& plan, const LocalCalls& calls, const std::vector<Observed>& backward, Register slot,
                     BackwardKey key, const std::vector<Register>& leaving);

}  // namespace gramme::native
