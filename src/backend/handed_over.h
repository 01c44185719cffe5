// Facts about a capture that a backend may ask for beside graph and guards, stored apart from the trace.
//
//   const HandedOver record = handed_over(trace);            // plain: it may stay when the capture is gone
//   const CallInputs inputs = call_inputs(trace);            // of the call that was captured
//   const CallInputs later = call_inputs(record, objects);   // of another call that the guards hold of
#pragma once
#include <utility>
#include <vector>

#include "base/ref.h"
#include "trace/read_later.h"
#include "trace/trace.h"

namespace gramme::backend {

struct HandedOver {
  bool grad_at_start = true;
  bool writes_inputs = false;
  bool has_wrappers = false;    // tensors that wrap others
  bool returns_views = false;   // the graph returns views of wrappers (trace::WrapperViews)
  bool has_unbacked = false;    // the graph reads numbers or sizes from data
  bool others_written = false;  // a written tensor is no input, or part of one
  std::vector<size_t> written;  // inputs
  std::vector<bool> writes;     // by node: whether it is known to write an input; empty if none does
  std::vector<bool> unbacked;   // by symbol: no branch may depend on it
  std::vector<trace::ReadLater::Name> names_read_later;
  std::vector<size_t> inputs_read_later, outputs_read_later;  // read by hooks in backward
};

HandedOver handed_over(const trace::Trace& trace);

/// The inputs of one call; all borrowed.
struct CallInputs {
  std::vector<PyObject*> objects;                    // by input, as the program holds them
  std::vector<PyObject*> written;                    // written in place; may be an inner tensor of an input
  std::vector<std::pair<size_t, PyObject*>> memory;  // (input, tensor) if any is written; a wrapper's parts for it
};

CallInputs call_inputs(const trace::Trace& trace);
CallInputs call_inputs(const HandedOver& record, const graph::Graph& graph, const std::vector<Owned<>>& objects);

/// True if an input is written whose memory other inputs share.
bool has_aliased_writes(const HandedOver& record, const CallInputs& inputs);
/// True if the graph uses an input that it writes to, other than to write it.
bool uses_what_it_writes(const HandedOver& record, const graph::Graph& graph, const CallInputs& inputs);
/// True if autograd may record one of the graph's operations.
bool records_gradients(const HandedOver& record, const graph::Graph& graph);

}  // namespace gramme::backend
