// What a backend may ask of a capture beside the graph and the guards, apart from the trace that knows it.
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
  bool returns_views = false;   // of such: see trace::WrapperViews
  bool has_unbacked = false;    // numbers or sizes come out of data
  bool others_written = false;  // what is written is none of the inputs, or a part of one
  std::vector<size_t> written;  // inputs
  std::vector<bool> writes;     // by node: it writes to an input, as far as is noted; empty if none does
  std::vector<bool> unbacked;   // by symbol: nothing may be decided by it
  std::vector<trace::ReadLater::Name> names_read_later;
  std::vector<size_t> inputs_read_later, outputs_read_later;  // by hooks
};

HandedOver handed_over(const trace::Trace& trace);

/// The inputs of one call; all borrowed.
struct CallInputs {
  std::vector<PyObject*> objects;                    // by input, as the program has them
  std::vector<PyObject*> written;                    // in place; an inner tensor of an input, too
  std::vector<std::pair<size_t, PyObject*>> memory;  // (input, tensor), where any is written; of a wrapper its parts
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
