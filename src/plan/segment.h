// A segment: guards + graph + effects + exit, in portable form, with its bound guards and compiled graph.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "plan/guard_plan.h"
#include "plan/replay.h"

namespace gramme::plan {

/// What happens after the effects are replayed.
enum class ExitKind : uint8_t {
  Return,    // `result` is the function's value
  Concrete,  // the live frame is written back; the runtime carries out the instruction at `offset` and looks up the
             // next segment
  HandOver,  // the live frame is written back and runs plainly from `offset` to its end
  Yield,     // the live frame is written back and suspended; `result` is what the generator yields
};

/// A register written into a slot of the live frame; register kNull clears the slot.
struct SlotWrite {
  int slot;
  Register value;
};

/// What the instruction that called a frame gives when the frame returns.
enum class Gives : uint8_t {
  More,      // what it makes of the value: segments end with the frame
  Value,     // the frame's value
  Instance,  // the object that an __init__ was called for; its value has to be None
};

/// A frame that is made above the live one: the instruction that the frame below stands at calls the function, whose
/// frame then gets what is here in place of its arguments.
struct PushedFrame {
  Register function;
  Owned<PyCodeObject> code;      // the function's
  int offset = 0;                // code unit of the instruction to go on with
  Gives gives = Gives::More;     // segments may go on behind the instruction unless it does more
  bool called_alone = false;     // the instruction calls nothing else
  std::vector<Register> values;  // all of localsplus, then the stack
  int depth = 0;                 // of the stack
  std::vector<int> borrowed;     // as of Exit
};

/// Objects the frame held at the start but not at the end, unless a guard shows that destroying them runs no code: it
/// would run late.
struct LetGo {
  std::vector<int> slots, stack;
};

/// A frame that waits for the value of the one below; the segment goes on in it.
struct Caller {
  Owned<PyCodeObject> code;
  int unit = 0;  // of the instruction that waits
  Gives gives = Gives::Value;
  std::vector<int> dies;  // slots of the frame returned from whose variables have other values in the end than now
  LetGo lets_go;          // that frame
};

struct Exit {
  ExitKind kind = ExitKind::Return;
  std::vector<Caller> callers;    // the frames returned into, the nearest first; all else is about the last of them
  Register result = kNull;        // Return, Yield
  int offset = 0;                 // code unit of the instruction to go on with
  std::vector<SlotWrite> locals;  // localsplus slots that changed; Return: only cleared
  std::vector<Register> stack;    // the whole value stack, bottom first; kNull is the NULL of PUSH_NULL
  std::vector<int> borrowed;      // of its top items, the topmost first: see cpython::borrowed_items
  LetGo lets_go;
  Register exception = kNull;       // the exception being handled; kKeep leaves it as it is
  bool makes_generator = false;     // Return: of a generator
  bool frame_unchanged = false;     // HandOver where the segment began: nothing is written back
  std::vector<PushedFrame> pushed;  // Concrete: outermost first; the instruction is that of the last one
  bool capture_callee = false;      // Concrete call of a Python function: capture the callee on its own
};

/// For messages and explain(): why the segment ended.
struct Ending {
  std::string reason, detail, hint;
  const char* kind = "";  // the reason's name in reasons.def; empty for what the program raises
  bool unbacked = false;  // a number that comes out of data had to be known
  bool raises = false;    // the program does, there: nothing that could not be captured
  int line = 0;           // of the frame that was captured
  /// The innermost line of the program's own, in an inlined callee perhaps.
  std::string file, function;
  int inner_line = 0;
  /// The module that is called there, as the capture names it; empty outside any.
  std::string module;
  /// The operator of control flow that runs the function in which that line is; empty if none does.
  std::string operation;
  /// The calls that led there: code object and code unit, outermost first. Those that waited for the captured frame are
  /// the capture's; later ones may come from elsewhere.
  std::vector<std::pair<Owned<>, int>> stack;
};

/// A graph that writes an input which is not put back if it raises: after that, nothing may run again, and the
/// exception leaves the frame as if the program had raised it.
struct LastingWrites {
  /// Where a node stands in the program.
  struct Place {
    Owned<> code;
    int unit;
    int caller;  // the place of the call around it, -1 in the frame that was captured
  };
  /// At this node, effects that need nothing of the graph have happened, and the replay's operations up to `operations`
  /// make them.
  struct Happened {
    size_t node, operations;
  };
  size_t first = 0;  // the first node that writes such an input; nodes are counted without placeholders
  std::vector<Place> places;
  std::vector<int> place_of;  // by node; -1: not known
  std::vector<Happened> happened;
};

/// What logs, compilers and profilers call a capture, as in PyTorch's front end: "3/1" is the second capture at the
/// resume point that was the fourth to be captured.
struct CompileId {
  int64_t frame = -1, recompile = 0;
  bool given() const { return frame >= 0; }
  std::string print() const { return std::to_string(frame) + "/" + std::to_string(recompile); }
};

/// Calls what a backend returned, past Python's protocol: its outputs, new references, go to `outputs`. False with an
/// error set if it raises, or gives another number of them; `*failed` is then the node that raised, if that is known.
using CallGraph = bool (*)(PyObject* compiled, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                           size_t output_count, size_t* failed);

struct Segment {
  Segment(GuardDescription description) : guards(std::move(description)) {}
  int start = 0;     // code unit where it begins; 0 at the function's start
  size_t steps = 0;  // instructions of the frame that it stands for
  GuardPlan guards;
  std::vector<int> graph_inputs;  // indices into the guard plan's reads
  std::vector<int> classed;       // inputs of a subclass: the graph is given plain tensors with their memory
  Owned<> compiled;               // what the backend returned; null when the graph is empty
  CallGraph call = nullptr;       // how to call it; null: as a Python callable that gives a tuple or list
  int graph_outputs = 0;
  std::vector<int> restored;  // reads whose content is put back if the graph raises
  std::shared_ptr<const LastingWrites> lasting;
  bool random = false;      // the graph draws random numbers: generators are put back if it raises
  bool sets_modes = false;  // the graph changes the thread's modes: they are put back if it raises
  bool changes_state() const { return random || sets_modes || !restored.empty(); }
  bool iterates = false;  // it takes items of iterators from before
  Replay replay;
  int levels = 0;  // of recursion, with which what it stands for, and its graph, surely need no more
  Exit exit;
  Ending ending;
  std::vector<std::string> effects;  // what replay changes, as text
  int operations = 0;                // nodes of the graph without placeholders and output
  uint64_t operators = 0;            // that eager execution asks the dispatcher for in the graph's place
  Owned<> graph_module;              // kept for explain() only; null otherwise
  uint64_t hits = 0;
  uint64_t number = 0;         // among the captures of its family
  double check_seconds = 0;    // that its guards take; 0 unless it was captured in a recording
  int64_t recorded = -1;       // its number in the last recording that saw it
  uint64_t terms = 0;          // entries of equal code with these terms may have it, too (runtime/sharing.h); 0: none
  uint64_t capture_terms = 0;  // the same but for the backend: it is another's with the graph that is kept; 0: none's
  CompileId compile_id;        // none where another segment at once goes on with what this one is about
};

}  // namespace gramme::plan
