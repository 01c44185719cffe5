// A graph whose backward is recorded: forward and backward are tapes below autograd, joined by nodes of gramme's own.
//
//   call 1            the program's steps, under autograd (recording.h); leaves a flat tape
//   a later call      the flat tape under autograd; its outputs get nodes that run a backward by the engine and record
//                     what it calls (eager_graph.h, backward_tape.h)
//   calls after that  a forward tape below autograd that keeps what backward tapes read; the nodes run those
//
// A backward without a tape (other gradients, create_graph, modes of the thread) runs the flat tape again under
// autograd, from the inputs and random state of the forward, and the engine does the rest. Before each call it is
// decided whether this scheme may be used at all: nodes and what they save must not be observable.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tape/frames.h"
#include "tape/medium_memory.h"
#include "training/backward_tape.h"
#include "training/eager_graph.h"

namespace gramme::native {

/// A forward below autograd.
struct ForwardTape {
  std::shared_ptr<const Tape> tape;
  std::vector<Register> outputs;  // registers of `tape`, in the order of Training::shown
  mutable LockedFramePool frames;
};

/// Forward tapes, and where backward tapes find what they read.
struct ForwardPlan {
  ForwardTape keeping;                       // leaves what backward tapes read
  ForwardTape bare;                          // leaves nothing; only of what is recomputed
  std::vector<Register> kept;                // registers of the flat tape, in the order of keeping.tape->kept
  std::vector<int32_t> index;                // index into kept, by flat register; -1: not kept
  std::vector<std::vector<size_t>> readers;  // indices of Training::savers, by kept tensor; empty: readers unknown
};

class Training : public std::enable_shared_from_this<Training> {
 public:
  struct Settings {
    bool recomputes = false;     // a backward runs the forward again for what it reads, from the inputs as they are
                                 // then, as torch.utils.checkpoint does
    bool caches_memory = false;  // steps take tensors from the cache (memory.h)
  };
  /// The object takes the GIL for its destruction.
  static std::shared_ptr<Training> make(std::unique_ptr<const Tape> flat, Settings settings);

  /// How to make a call.
  struct Way {
    std::vector<torch::autograd::Edge> edges;  // by input
    std::shared_ptr<const ForwardPlan> plan;   // null: under autograd
    bool heard = false;                        // a reducer hears of gradients (leaves.h)
  };
  /// Chooses the way, and adds casts to the program's inputs; nullopt if the call must not be made by this object.
  /// Needs the GIL.
  std::optional<Way> way(std::vector<at::Tensor>& inputs);
  /// Makes a call, without the GIL. Returns the tape that ran, which lives as long as `way` and this; `own` gets inputs
  /// and outputs by its registers. Null, without effects, if what is to be recomputed cannot be. On an exception
  /// `*step` is the one that threw. `arguments`: see ForwardCall::note.
  const Tape* run(const Way& way, const std::vector<at::Tensor>& inputs, std::span<const size_t> arguments,
                  std::vector<at::Tensor>& own, size_t* step);

  // Used by the nodes:

  const Tape& flat() const { return *flat_; }
  bool recomputes() const { return settings_.recomputes; }
  bool caches_memory() const { return settings_.caches_memory; }
  bool draws() const { return draws_; }
  /// Runs the forward again below autograd, in the thread's modes; returns the tensors of ForwardPlan::kept.
  std::vector<at::Tensor> kept_of(const ForwardPlan& plan, const std::vector<at::Tensor>& inputs) const;
  /// True if the forward may run again on any data of the same form.
  bool needs_no_data() const { return needs_no_data_; }
  const Layout& layout() const { return *layout_; }
  /// The saving nodes; valid once the layout is known.
  const std::vector<Saver>& savers() const { return savers_; }
  /// Savers of the input.
  const std::vector<size_t>& input_savers(size_t input) const { return input_savers_[input]; }
  /// Savers of the input's memory.
  const std::vector<size_t>& data_savers(size_t input) const { return data_savers_[input]; }
  /// True if a second backward that reaches the use would raise.
  bool is_once(size_t piece, size_t use) const { return once_[piece][use]; }
  const Seen& seen(Register r) const { return recorder_->seen(registers_[static_cast<size_t>(r)]); }
  /// The tape for the piece and key; null if there is none.
  std::shared_ptr<const BackwardTape> find(size_t piece, const BackwardKey& key) const;
  void add(size_t piece, std::shared_ptr<const BackwardTape> tape);
  /// Stops using recorded backwards.
  void stop(std::string why);
  /// The same where gradients of gradients were asked for; sets the flags.
  void stop_for_second_derivatives();
  void set_flags(std::vector<std::shared_ptr<std::atomic<bool>>> flags) { flags_ = std::move(flags); }
  /// How the flat tape writes to an input. Hidden: without raising its version counter.
  enum class Written : uint8_t { No, Hidden, Counted };
  Written written(size_t input) const { return written_[input]; }
  /// True if the input has exactly one use in all pieces.
  bool is_used_once(int32_t input) const { return used_once_[static_cast<size_t>(input)]; }
  /// Registers of the flat tape that the program receives: Layout::outputs, then outputs without gradient.
  const std::vector<Register>& shown() const { return shown_; }
  /// By flat register: the input, or the shown output (numbered after the inputs), that it shares memory with; -1 if
  /// none.
  int32_t owner(Register r) const { return owners_[static_cast<size_t>(r)]; }
  /// The number of calls made by tapes.
  uint64_t replayed() const { return replayed_; }
  std::string print() const;

 private:
  Training(std::unique_ptr<const Tape> flat, Settings settings);
  bool is_started() const;
  bool may_be_heard(const Way& way) const;
  std::shared_ptr<const ForwardPlan> plan();
  std::shared_ptr<const ForwardPlan> make_plan() const;
  void make_forward(ForwardTape& made, const std::vector<Register>& kept) const;
  const ForwardTape& forward(const ForwardPlan& plan) const { return recomputes() ? plan.bare : plan.keeping; }
  bool learn(EagerGraph& graph);
  std::vector<at::Tensor> copies_of_written(const std::vector<at::Tensor>& inputs) const;
  void run_eagerly(struct ForwardCall& call, const Way& way, const std::vector<at::Tensor>& inputs,
                   std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& own, size_t* at);
  void restore_versions(const std::vector<at::Tensor>& outputs) const;
  void run_tape(struct ForwardCall& call, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs,
                std::vector<at::Tensor>& own, size_t* at);

  std::unique_ptr<const Tape> flat_;
  const Settings settings_;
  const AutocastState autocast_ = AutocastState::read();  // when it was recorded
  bool draws_ = false;                                    // the forward draws random numbers
  bool needs_no_data_ = false;                            // the forward may run again on any data
  std::vector<Written> written_;                          // by input
  std::vector<bool> used_once_;                           // by input
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> starts_ = 0, waited_ = 0, replayed_ = 0;
  mutable std::mutex mutex_;
  std::optional<MediumUse> memory_;           // set once: by the first call whose backward is not the program's
  std::shared_ptr<const Layout> layout_;      // set once
  std::shared_ptr<const Recorder> recorder_;  // recorder of the first graph's forward
  std::vector<Saver> savers_;
  std::vector<std::vector<size_t>> input_savers_, data_savers_;  // by input
  std::vector<std::vector<bool>> once_;                          // by piece, by use
  std::vector<Register> registers_;                              // the recorder's registers, by flat register
  std::vector<Register> shown_;
  std::vector<uint32_t> versions_;  // by shown: eager's version
  std::vector<int32_t> owners_;
  std::string why_stopped_;
  std::vector<std::shared_ptr<std::atomic<bool>>>
      flags_;  // LinearShape::twice of the tape that runs once this is stopped
  std::vector<std::vector<std::shared_ptr<const BackwardTape>>> tapes_;  // by piece
  std::shared_ptr<const ForwardPlan> plan_;                              // null: none yet, or outdated by new tapes
};

}  // namespace gramme::native
