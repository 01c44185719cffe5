// Frames: the registers of running calls. Several may run at once; finished frames are pooled.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tape/place.h"
#include "tape/remembered.h"
#include "tape/tape.h"

namespace gramme::native {

struct Frame {
  explicit Frame(const Tape& tape)
      : tensors(static_cast<size_t>(tape.registers)),
        own(static_cast<size_t>(tape.registers)),
        objects(static_cast<size_t>(tape.objects)),
        modes(static_cast<size_t>(tape.modes)),
        numbers(tape.numbers),
        remembered(static_cast<size_t>(tape.remembered)) {
    for (size_t r = 0; r < own.size(); ++r) tensors[r] = &own[r];
    for (const auto& [r, tensor] : tape.constants) tensors[static_cast<size_t>(r)] = &tensor;
  }
  Run run() {
    return {tensors.data(), own.data(), objects.data(), modes.data(),
            false,          nullptr,    numbers.data(), remembered.data()};
  }
  /// Drops inputs that it owns after a complete run, when temporaries are freed and the output was taken.
  void drop_inputs(const Tape& tape, bool retained) {
    const size_t first = retained ? 0 : tape.given();
    for (size_t i = first; i < tape.inputs.size(); ++i)
      if (tape.inputs[i].kind == Place::Tensor) own[static_cast<size_t>(tape.inputs[i].index)].reset();
    for (Owned<>& object : objects) object = {};
  }
  /// Drops everything; leaves modes in reverse order. Needs the GIL.
  void clear() {
    for (size_t i = modes.size(); i-- > 0;) modes[i].reset();
    for (at::Tensor& tensor : own) tensor.reset();
    for (Owned<>& object : objects) object = {};
  }

  std::vector<const at::Tensor*> tensors;
  std::vector<at::Tensor> own;
  std::vector<Owned<>> objects;
  std::vector<std::unique_ptr<Entered>> modes;
  std::vector<int64_t> numbers;
  std::vector<Remembered> remembered;  // survives failed calls
};

/// Scope that puts the thread below autograd, unless the tape's instructions do that themselves.
class BelowAutograd {
 public:
  explicit BelowAutograd(const Tape& tape) { tape.all_direct ? void(all_.emplace()) : void(some_.emplace()); }

 private:
  std::optional<at::AutoDispatchBelowADInplaceOrView> all_;
  std::optional<at::AutoDispatchBelowAutograd> some_;
};

/// A pool of unused frames of one tape, for one thread at a time.
class FramePool {
 public:
  std::unique_ptr<Frame> take(const Tape& tape) {
    if (idle_.empty()) return std::make_unique<Frame>(tape);
    std::unique_ptr<Frame> frame = std::move(idle_.back());
    idle_.pop_back();
    return frame;
  }
  void give_back(std::unique_ptr<Frame> frame) {
    if (idle_.size() < kKept) idle_.push_back(std::move(frame));
  }

 private:
  static constexpr size_t kKept = 8;
  std::vector<std::unique_ptr<Frame>> idle_;
};

/// The same for several threads.
class LockedFramePool {
 public:
  std::unique_ptr<Frame> take(const Tape& tape) {
    std::lock_guard<std::mutex> lock(mutex_);
    return idle_.take(tape);
  }
  void give_back(std::unique_ptr<Frame> frame) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.give_back(std::move(frame));
  }

 private:
  std::mutex mutex_;
  FramePool idle_;
};

}  // namespace gramme::native
