// Arguments of a graph node: a tree over nodes and Python constants. Metadata inference reads the same trees.
#pragma once
#include <Python.h>

#include <cstdint>

#include "base/arena.h"
#include "meta/interval.h"
#include "meta/record.h"

namespace gramme::graph {
struct Node;
}

namespace gramme::meta {

struct Argument {
  enum Kind : uint8_t {
    Tensor,    // node, and its record at the time of the call
    Constant,  // object: None, bool, int, float, complex, str, dtype, device, layout, memory format, torch.Size,
               // Ellipsis, a callable …
    Number,    // node of a Python int, float or bool known only at run time; object is an example value
    Tuple,     // items; object is the type when it is a tuple subclass (torch.Size, namedtuple), else null
    List,      // items
    Dict,      // items are key, value, key, value …; keys are Constants
    Slice,     // items: start, stop, step
    Body,      // node of a body that a higher-order operator runs, or of an object of the program (object)
  };
  Kind kind = Constant;
  graph::Node* node = nullptr;
  const Record* record = nullptr;
  PyObject* object = nullptr;  // borrowed: the trace keeps it alive
  shape::Expr expr = nullptr;  // Number: its expression over the capture's symbols, if not constant
  Interval range;              // Number: its bounds
  const Argument* items = nullptr;
  uint32_t count = 0;
};

inline Argument constant(PyObject* object) {
  Argument argument;
  argument.object = object;
  return argument;
}

/// A call in the form in which it enters the graph.
struct Call {
  enum Kind : uint8_t { Function, Method } kind = Function;
  PyObject* target = nullptr;  // the callable, or the method's name (an interned str); borrowed
  const Argument* args = nullptr;
  uint32_t arg_count = 0;
  PyObject* const* keyword_names = nullptr;  // interned str
  const Argument* keyword_args = nullptr;
  uint32_t keyword_count = 0;
};

/// Calls `visit` for every Tensor and Number leaf, in order.
template <class Visit>
void each_leaf(const Argument& argument, Visit&& visit) {
  if (argument.kind == Argument::Tensor || argument.kind == Argument::Number) return visit(argument);
  for (uint32_t i = 0; i < argument.count; ++i) each_leaf(argument.items[i], visit);
}
template <class Visit>
void each_leaf(const Call& call, Visit&& visit) {
  for (uint32_t i = 0; i < call.arg_count; ++i) each_leaf(call.args[i], visit);
  for (uint32_t i = 0; i < call.keyword_count; ++i) each_leaf(call.keyword_args[i], visit);
}

}  // namespace gramme::meta
