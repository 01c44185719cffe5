// From a finished trace to a segment: replay program, exit and the reads they need.
#pragma once
#include <memory>

#include "trace/trace.h"

namespace gramme::trace {

/// A frame that the capture made and that goes on: where, and with what in it.
struct FrameEnd {
  value::Function* function;
  int offset;                 // code unit
  std::vector<Value*> slots;  // null where unbound
  std::vector<Value*> stack;
  plan::Gives gives;  // the instruction that called it, when it returns
  bool called_alone;  // by an instruction that calls nothing else
};

/// Where and how the capture ended.
struct End {
  plan::ExitKind kind = plan::ExitKind::Return;
  Value* result = nullptr;                     // Return, Yield
  int offset = 0;                              // code unit to go on at
  std::vector<std::pair<int, Value*>> locals;  // changed slots; a null value unbinds
  std::vector<Value*> stack;                   // bottom first
  std::vector<int> borrowed;                   // of its top items: see cpython::borrowed_items
  plan::LetGo lets_go;
  Value* exception = nullptr;  // being handled; null if none
  bool exception_changed = false;
  std::vector<plan::Caller> callers;  // the frames returned into
  std::vector<FrameEnd> pushed;       // frames above the root's, outermost first
  bool capture_callee = false;
};

/// Which inputs of the graph are of a subclass of tensors.
std::vector<int> classed_inputs(const Trace& trace);

/// What must hold for what the trace found out.
plan::GuardDescription describe_guards(const Trace& trace, std::vector<guards::Fact> facts,
                                       std::vector<const Source*> reads);

/// Builds the segment; the trace's graph is cleaned and has its outputs set. Throws CannotCapture(ReplayUnsupported) if
/// a value cannot be rebuilt.
std::unique_ptr<plan::Segment> finish(Trace& trace, const End& end);

}  // namespace gramme::trace
