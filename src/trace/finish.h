// Makes a segment from a finished trace: guards, replay program, exit, and the reads they need.
#pragma once
#include <memory>

#include "trace/trace.h"

namespace gramme::trace {

/// An inlined frame that continues after the segment: its position and content.
struct FrameEnd {
  value::Function* function;
  int offset;                 // code unit
  std::vector<Value*> slots;  // null where unbound
  std::vector<Value*> stack;
  plan::Gives gives;  // what the calling instruction does with its value
  bool called_alone;  // the calling instruction calls nothing else
};

/// Where and how the capture ended.
struct End {
  plan::ExitKind kind = plan::ExitKind::Return;
  Value* result = nullptr;                     // Return, Yield
  int offset = 0;                              // code unit to go on at
  std::vector<std::pair<int, Value*>> locals;  // changed slots; a null value unbinds
  std::vector<Value*> stack;                   // bottom first
  std::vector<int> borrowed;                   // depths of borrowed items: see cpython::borrowed_items
  plan::LetGo lets_go;
  Value* exception = nullptr;  // being handled; null if none
  bool exception_changed = false;
  std::vector<plan::Caller> callers;  // the frames returned into
  std::vector<FrameEnd> pushed;       // frames above the root's, outermost first
  bool capture_callee = false;
};

/// Indices of graph inputs that are instances of a tensor subclass.
std::vector<int> classed_inputs(const Trace& trace);

/// Assembles the guards under which the trace's findings hold.
plan::GuardDescription describe_guards(const Trace& trace, std::vector<guards::Fact> facts,
                                       std::vector<const Source*> reads);

/// Builds the segment; also cleans the trace's graph and sets its outputs. Throws CannotCapture(ReplayUnsupported) if a
/// value cannot be rebuilt.
std::unique_ptr<plan::Segment> finish(Trace& trace, const End& end);

}  // namespace gramme::trace
