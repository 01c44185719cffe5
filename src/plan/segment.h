// A segment, the unit of captured code: guards, graph, effects and exit in portable form, with its bound guards and
// compiled graph.
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
  HandOver,  // the live frame is written back; CPython runs it from `offset` to its end
  Yield,     // the live frame is written back and suspended; `result` is the yielded value
};

/// Writes a register into a slot of the live frame; kNull clears the slot.
struct SlotWrite {
  int slot;
  Register value;
};

/// What an instruction does with the value of the frame it called.
enum class Gives : uint8_t {
  More,      // something else: segments end with the frame
  Value,     // pushes the value
  Instance,  // pushes the object that __init__ was called for; the value must be None
};

/// A frame to be made above the live one. The instruction at which the frame below stands calls the function, and the
/// new frame then receives these values in place of its arguments.
struct PushedFrame {
  Register function;
  Owned<PyCodeObject> code;      // the function's
  int offset = 0;                // code unit of the instruction to go on with
  Gives gives = Gives::More;     // unless More, segments may continue after the calling instruction
  bool called_alone = false;     // the calling instruction calls nothing else
  std::vector<Register> values;  // all of localsplus, then the stack
  int depth = 0;                 // number of stack items
  std::vector<int> borrowed;     // as in Exit
};

/// Places of objects that the frame holds at the start but not at the end, if no guard shows that destroying them runs
/// no code. Such code would run late.
struct LetGo {
  std::vector<int> slots, stack;
};

/// A frame that waits for the value of the frame above it, and into which the segment returns.
struct Caller {
  Owned<PyCodeObject> code;
  int unit = 0;  // code unit of the waiting instruction
  Gives gives = Gives::Value;
  std::vector<int> dies;  // slots of the returning frame whose variables changed
  LetGo lets_go;          // of the returning frame
};

struct Exit {
  ExitKind kind = ExitKind::Return;
  std::vector<Caller> callers;    // frames returned into, nearest first; all else describes the last of them
  Register result = kNull;        // Return, Yield
  int offset = 0;                 // code unit of the instruction to go on with
  std::vector<SlotWrite> locals;  // localsplus slots that changed; Return: only cleared
  std::vector<Register> stack;    // the whole value stack, bottom first; kNull is the NULL of PUSH_NULL
  std::vector<int> borrowed;      // depths of borrowed items: see cpython::borrowed_items
  LetGo lets_go;
  Register exception = kNull;       // the exception being handled; kKeep leaves it as it is
  bool makes_generator = false;     // Return: the value is a generator
  bool frame_unchanged = false;     // HandOver at the segment's start: nothing is written back
  std::vector<PushedFrame> pushed;  // Concrete: outermost first; the instruction is the last frame's
  bool capture_callee = false;      // Concrete: captures a called Python function on its own
};

/// Why the segment ended, for messages and explain().
struct Ending {
  std::string reason, detail, hint;
  const char* kind = "";  // the reason's name in reasons.def; empty if the program raises
  bool unbacked = false;  // a data-dependent number had to be known
  bool raises = false;    // the program raises there; nothing failed to be captured
  int line = 0;           // in the frame that was captured
  /// The innermost line of the program's own code, perhaps in an inlined callee.
  std::string file, function;
  int inner_line = 0;
  /// The path of the module being called there; empty outside modules.
  std::string module;
  /// The control-flow operator whose function contains that line; empty if there is none.
  std::string operation;
  /// The calls that led there, as code object and code unit, outermost first. Callers of the captured frame are those
  /// at capture time; later calls may come from elsewhere.
  std::vector<std::pair<Owned<>, int>> stack;
};

/// For a graph that writes an input which is not restored if it raises. After that write nothing may run again, and an
/// exception leaves the frame as if the program had raised it.
struct LastingWrites {
  /// A node's position in the program.
  struct Place {
    Owned<> code;
    int unit;
    int caller;  // index of the calling place, -1 in the captured frame
  };
  /// Effects that precede this node and need no graph output; the replay's first `operations` operations make them.
  struct Happened {
    size_t node, operations;
  };
  size_t first = 0;  // first node that writes such an input; placeholders do not count
  std::vector<Place> places;
  std::vector<int> place_of;  // index into places, by node; -1: unknown
  std::vector<Happened> happened;
};

/// An input that is as before the graph if that raises.
struct Restored {
  int read;
  bool content;  // false: only its version is put back, since the second run overwrites the content
};

/// The id of a capture in logs, compilers and profilers, as in PyTorch's front end. "3/1" is the second capture at the
/// fourth resume point that was captured.
struct CompileId {
  int64_t frame = -1, recompile = 0;
  bool given() const { return frame >= 0; }
  std::string print() const { return std::to_string(frame) + "/" + std::to_string(recompile); }
};

/// Calls a backend's result directly, without Python's call protocol. Outputs are new references in `outputs`. False
/// with an error set if it raises or returns a wrong number; `*failed` is then the node that raised, if known.
using CallGraph = bool (*)(PyObject* compiled, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                           size_t output_count, size_t* failed);

struct Segment {
  Segment(GuardDescription description) : guards(std::move(description)) {}
  int start = 0;     // code unit where the segment begins; 0 at the function's start
  size_t steps = 0;  // instructions of the frame that it replaces
  GuardPlan guards;
  std::vector<int> graph_inputs;  // indices into the guard plan's reads
  std::vector<int> classed;       // inputs of tensor subclasses: the graph gets plain tensors that share their memory
  Owned<> compiled;               // the backend's result; null if the graph is empty
  CallGraph call = nullptr;       // how to call it; null: as a Python callable that returns a tuple or list
  int graph_outputs = 0;
  std::vector<Restored> restored;
  std::shared_ptr<const LastingWrites> lasting;
  bool random = false;      // the graph draws random numbers: generators are restored if it raises
  bool sets_modes = false;  // the graph changes the thread's modes: they are restored if it raises
  bool changes_state() const { return random || sets_modes || !restored.empty(); }
  bool iterates = false;  // takes items of existing iterators
  Replay replay;
  int levels = 0;  // recursion levels that suffice for the replaced code and the graph
  Exit exit;
  Ending ending;
  std::vector<std::string> effects;  // what replay changes, as text
  int operations = 0;                // nodes of the graph without placeholders and output
  uint64_t operators = 0;            // operators that eager execution would dispatch
  Owned<> graph_module;              // kept for explain() only; null otherwise
  uint64_t hits = 0;
  uint64_t number = 0;         // index among the captures of its family
  double check_seconds = 0;    // cost of its guards; 0 unless captured during a recording
  int64_t recorded = -1;       // number in the last recording that saw it, or -1
  uint64_t terms = 0;          // entries of equal code with these terms may share it (runtime/sharing.h); 0: none
  uint64_t capture_terms = 0;  // terms without the backend: another backend may take its kept graph; 0: none may
  CompileId compile_id;        // unset if another segment continues this one at once
};

}  // namespace gramme::plan
