// State of the thread and the process that changes what operators do: reading, comparing, saving and restoring it. The
// includer needs no torch headers.
//
//   what                                               compared                     put back
//   grad mode, inference mode, forward AD's mode       GlobalState                  SavedModes
//   dispatch keys of the thread (autocast, functorch)  GlobalState                  SavedModes
//   autocast's dtypes and cache                        GlobalState                  SavedModes
//   torch functions: whether on, number of modes       GlobalState                  SavedModes
//   hooks of saved tensors                             GlobalState                  SavedModes
//   torch dispatch modes                               -: can_capture()             SavedModes
//   levels of forward AD                               -: can_capture()             SavedModes, those entered since
//   torch.jit tracing                                  GlobalState                  -: nothing of ours starts one
//   default dtype, deterministic algorithms            GlobalState                  -: no operation changes them
//   random numbers (the default CPU generator)         -: they are read when drawn  RandomState
//
// Compared: by guards, by the memo of `meta` and by tapes; the rows are in state.cpp. Put back: after an exception
// interrupted code that may have changed it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/ref.h"

namespace gramme::aten {

struct GlobalState {
  uint64_t included, excluded, bits, dtypes;
  int64_t function_modes;
  static GlobalState read();  // some 25 ns
  /// True if the thread is inside a functorch transform (torch.vmap, torch.func.grad).
  bool transforms() const;
  /// True if __torch_function__ of tensors' classes is called.
  bool asks_classes() const;
  bool operator==(const GlobalState&) const = default;
  /// The same, whether there are hooks of saved tensors or not.
  GlobalState but_for_hooks() const;
  /// "grad mode changed from True to False"
  std::string explain_difference(const GlobalState& now) const;
};

class SavedModes {
 public:
  SavedModes();
  ~SavedModes();
  void save();     // some 200 ns
  void restore();  // nothing if nothing was saved

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs `call`, and puts the modes back if it throws: it may have entered a mode and not left it.
template <class Call>
auto keeping_modes(Call&& call) {
  SavedModes modes;
  modes.save();
  try {
    return call();
  } catch (...) {
    modes.restore();
    throw;
  }
}

class RandomState {
 public:
  bool save();     // false if there is no memory for it
  void restore();  // nothing if nothing was saved

 private:
  Owned<> state_;  // a tensor
};

/// True if operators may be captured now. False under a torch function or dispatch mode, which may do anything with an
/// operator; inside a functorch transform; and inside a level of forward AD, whose tangents no guard sees.
bool can_capture();
/// True inside a torch dispatch mode that is not one of PyTorch's own compilers.
bool is_dispatched_around();
/// True if the thread is in the middle of an operator: in a kernel written in Python, or a tensor class's
/// __torch_dispatch__.
bool inside_operator();
/// True if kernels on plain CPU tensors may be called directly: neither autograd nor autocast nor another mode of the
/// thread comes before them.
bool kernels_alone();
/// The same, except that autocast may come before them, and inference mode may be on.
bool autocast_or_inference_alone();
/// The same, except that autograd does come before them, and autocast may.
bool autograd_and_autocast_alone();

bool grad_enabled();
bool autocast_enabled();  // on any device
bool inference_mode();
bool forward_grad_enabled();
/// True if the process is in a level of forward AD.
bool forward_level_is_open();
void set_grad_enabled(bool on);
/// True if torch.jit.trace records what this thread computes.
bool jit_tracing();
/// True if hooks of user code see each tensor that autograd saves.
bool saved_tensors_hooked();

}  // namespace gramme::aten
