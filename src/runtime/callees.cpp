// Which frames that begin during a concrete instruction are captured: the rule of each code object, kept in a note on
// it, and the budget (`patience`) that frames without a graph use up.
#include "runtime/callees.h"

#include <algorithm>

#include "aten/spec.h"
#include "aten/state.h"
#include "base/process.h"
#include "base/stack.h"
#include "cpython/code_object.h"
#include "cpython/objects.h"
#include "runtime/call.h"
#include "runtime/chain.h"

namespace gramme::runtime {
namespace {

using cpython::FrameRule;

// In units of about 50 ns: what frames without a graph cost more than CPython's calls, and what a frame with a graph
// earns.
constexpr int kPassed = 1, kTaken = 8, kCaptured = 256, kEarned = 64;
constexpr std::chrono::nanoseconds kEarnsOne{500};  // one unit (50 ns) per 500 ns: a tenth of the time
constexpr int kRest = 256;                          // times that an instruction without patience runs before it is …
constexpr int kProbe = 256;                         // … given as much again
constexpr unsigned kIdleRuns = 8;                   // below the recompile limit, so that no warning about it appears
constexpr size_t kMostTables = 4096;

/// Notes are kept in code objects.
struct State {
  unsigned generation = 1;  // GIL, a word: of notes
};
Lasting<State> state;

/// What is known about a code object, stored in its extra slot.
struct Note {
  FrameRule rule = FrameRule::Take;
  bool ruled = false;
  unsigned idle = 0;  // runs in a row without an operator in a graph
  unsigned since = state->generation;

  static Note of(PyCodeObject* code) {
    const uintptr_t word = cpython::code_note(code);
    const Note note{static_cast<FrameRule>(word & 7), (word >> 3 & 1) != 0, static_cast<unsigned>(word >> 4 & 15),
                    static_cast<unsigned>(word >> 8)};
    return note.since == state->generation ? note : Note{};
  }
  void keep(PyCodeObject* code) const {
    cpython::set_code_note(code, static_cast<uintptr_t>(since) << 8 | idle << 4 | static_cast<uintptr_t>(ruled) << 3 |
                                     static_cast<uintptr_t>(rule));
  }
};

/// True if the rule cannot be remembered by code object: the function's attributes, which may change, decide it too.
bool has_attributes(PyFunctionObject* function) {
  return function->func_dict && PyDict_GET_SIZE(function->func_dict) > 0;
}

/// False under saved-tensor hooks among others: a checkpoint must save the same tensors when it recomputes without
/// gramme.
bool may_capture() {
  return aten::can_capture() && !aten::inside_operator() && !aten::jit_tracing() && !aten::saved_tensors_hooked();
}

FrameRule find_rule(Capturer& capturer, PyFunctionObject* function) {
  cpython::TakesNone scope;
  try {
    return capturer.rule_of(function);
  } catch (const std::exception&) {
    PyErr_Clear();
    return FrameRule::PassOn;
  }
}

}  // namespace

/// Converts elapsed time into patience: a long instruction keeps the hook as long as its frames are rare enough.
bool Callees::earn() {
  if (since_ == Clock::time_point{}) return false;
  const Clock::time_point now = Clock::now();
  const auto earned = std::clamp<int64_t>((now - since_) / kEarnsOne, 0, kPatience);
  since_ = now;
  patience_ += static_cast<int>(earned);
  return patience_ > 0;
}

FrameRule Callees::ask(PyFunctionObject* function) noexcept {
  if (patience_ <= 0 && !earn()) return FrameRule::Leave;
  if (since_ == Clock::time_point{}) since_ = Clock::now();
  patience_ -= kPassed;
  if (capturing()) return FrameRule::Alone;
  PyCodeObject* code = cpython::code_of(function);
  Note note = Note::of(code);
  if (!note.ruled || has_attributes(function)) {
    note.rule = find_rule(family_->capturer(), function);
    note.ruled = true;
    note.keep(code);
  }
  if (note.rule != FrameRule::Take) return note.rule;
  if (note.idle >= kIdleRuns || !may_capture()) return FrameRule::PassOn;
  if (family_->tables().size() >= kMostTables && !family_->tables().contains(code)) return FrameRule::PassOn;
  return FrameRule::Take;
}

PyObject* Callees::run(PyThreadState* thread, cpython::LiveFrame frame) noexcept {
  PyCodeObject* code = frame.code();
  const uint64_t operators = counted->operators, captures = family_->counters.captures;
  const Clock::time_point began = Clock::now();
  PyObject* result = run_frame(family_, thread, frame, true);
  Note note = Note::of(code);
  if (family_->counters.captures != captures) since_ += Clock::now() - began;
  if (counted->operators != operators) {
    patience_ = std::min(patience_ + kEarned, kPatience);
    note.idle = 0;
  } else {
    patience_ -= kTaken + kCaptured * static_cast<int>(family_->counters.captures - captures);
    note.idle = std::min(note.idle + 1, kIdleRuns);  // frames of one recursion each count
  }
  note.ruled = true;
  note.keep(code);
  return result;
}

namespace {

/// True if the instruction gets the hook this time.
bool may_ask(ResumePoint& point) {
  if (point.patience <= 0 && ++point.patience == 1) point.patience = kProbe;
  return point.patience > 0 && surely_has_room(Room::Hook);
}

Callees* asked(std::shared_ptr<Callees>& callees, const std::shared_ptr<Family>& family, ResumePoint& point) {
  if (!may_ask(point)) return nullptr;
  if (!callees) callees = std::make_shared<Callees>(family);
  callees->begin(point.patience);
  return callees.get();
}

}  // namespace

CalleesCaptured::CalleesCaptured(PyThreadState* thread, std::shared_ptr<Callees>& callees,
                                 const std::shared_ptr<Family>& family, ResumePoint& point)
    : point_(point), callees_(asked(callees, family, point)), scope_(thread, callees_) {}

CalleesCaptured::~CalleesCaptured() {
  if (callees_) point_.patience = callees_->patience() > 0 ? callees_->patience() : -kRest;
}

void forget_callees() { ++state->generation; }

}  // namespace gramme::runtime
