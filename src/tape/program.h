// The native executor's program: the calls of a captured graph in order, with everything they need.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "base/tuple_types.h"

namespace gramme::native {

/// Number of a value: inputs first (the call's arguments, then module attributes that each call reads), then each
/// step's result.
using ValueId = int32_t;

/// Calls a native program whose output is a sequence, and stores new references to its items. False with an error set
/// if it raises or returns a wrong number; `*failed` is the step that raised.
using GraphCall = bool (*)(PyObject* graph, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                           size_t output_count, size_t* failed) noexcept;

/// An argument of a step: a tree over values and constants.
struct Operand {
  enum Kind : uint8_t {
    Value,     // value
    Constant,  // object
    Tuple,     // items; object is the type of a tuple subclass, else null
    List,      // items
    Dict,      // items are key, value, key, value …
    Slice,     // items: start, stop, step
  };
  Kind kind = Constant;
  ValueId value = -1;
  Owned<> object;
  GraphCall graph = nullptr;  // Constant: how the object is called, if it is a native program
  std::vector<Operand> items;
};

/// Calls `visit` with every value in the tree.
template <class Visit>
void each_value(const Operand& operand, Visit&& visit) {
  if (operand.kind == Operand::Value) visit(operand.value);
  for (const Operand& item : operand.items) each_value(item, visit);
}

/// What the capture knows about the sizes of a step's result tensors, alone or in lists.
enum class Sizes : uint8_t { Unknown, Fixed, Vary };

struct Step {
  enum Kind : uint8_t {
    Function,  // target(*arguments, **keywords)
    Method,    // getattr(arguments[0], target)(*arguments[1:], **keywords)
  };
  Kind kind = Function;
  Owned<> target;
  std::vector<Operand> arguments;
  std::vector<std::pair<Owned<>, Operand>> keywords;  // names are strings
  std::vector<ValueId> dying;                         // values not needed after this step
  std::string name;                                   // the node's name: "linear_3"
  std::string where;                                  // the user's line: 'model.py:12 in forward'; may be empty
  Sizes sizes = Sizes::Unknown;                       // sizes of its results
  int32_t node = -1;                                  // its index in the graph, if some nodes are no steps
};

/// Calls `visit` with every value among the arguments.
template <class Visit>
void each_value(const Step& step, Visit&& visit) {
  for (const Operand& argument : step.arguments) each_value(argument, visit);
  for (const auto& [name, argument] : step.keywords) each_value(argument, visit);
}

struct Program {
  int32_t inputs = 0;
  std::vector<Step> steps;
  Operand output;
  bool any_sizes = false;           // guards leave tensor sizes open
  bool wraps = false;               // some values have a class with __torch_dispatch__
  std::vector<bool> fixed;          // by input: guards fix the sizes; empty: unknown
  std::vector<bool> symbols;        // by input: ints that guards leave open within 64 bits; empty: unknown
  std::vector<Owned<>> attributes;  // dotted names below `module`, the last of the inputs
  Owned<> module;                   // null if there are no attributes
  std::vector<Owned<>> blocks;      // executors of checkpointed bodies, which steps run

  bool is_fixed(ValueId input) const { return !fixed.empty() && fixed[static_cast<size_t>(input)]; }
  bool may_be_symbol(ValueId input) const { return symbols.empty() || symbols[static_cast<size_t>(input)]; }
  size_t arguments() const { return static_cast<size_t>(inputs) - attributes.size(); }

  ValueId result(size_t step) const { return inputs + static_cast<ValueId>(step); }
  /// Fills in Step::dying.
  void find_last_uses();
};

/// The operand as a Python object. `value` returns a new reference to a value's object. Throws PythonError.
template <class Value>
Owned<> build(const Operand& operand, Value&& value) {
  switch (operand.kind) {
    case Operand::Value:
      return value(operand.value);
    case Operand::Constant:
      return operand.object;
    case Operand::Tuple: {
      Owned<> tuple = take(PyTuple_New(static_cast<Py_ssize_t>(operand.items.size())));
      for (size_t i = 0; i < operand.items.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, build(operand.items[i], value).release());
      if (!operand.object) return tuple;
      return tuple_of_type(operand.object.get(), tuple.get());
    }
    case Operand::List: {
      Owned<> list = take(PyList_New(static_cast<Py_ssize_t>(operand.items.size())));
      for (size_t i = 0; i < operand.items.size(); ++i)
        PyList_SET_ITEM(list.get(), i, build(operand.items[i], value).release());
      return list;
    }
    case Operand::Dict: {
      Owned<> dict = take(PyDict_New());
      for (size_t i = 0; i + 1 < operand.items.size(); i += 2) {
        Owned<> key = build(operand.items[i], value), item = build(operand.items[i + 1], value);
        check(PyDict_SetItem(dict.get(), key.get(), item.get()));
      }
      return dict;
    }
    case Operand::Slice: {
      Owned<> start = build(operand.items[0], value), stop = build(operand.items[1], value),
              step = build(operand.items[2], value);
      return take(PySlice_New(start.get(), stop.get(), step.get()));
    }
  }
  return {};
}

}  // namespace gramme::native
