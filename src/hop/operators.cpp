// Dispatches calls of higher-order operators to the rows of higher_order.def, and registers the models of torch's
// functions around them.
#include "hop/operators.h"

#include <string_view>

#include "base/imported.h"
#include "base/once.h"
#include "hop/autograd_function.h"
#include "hop/rows.h"
#include "torch/names.h"

namespace gramme::hop {

using namespace value;

namespace {

constexpr Row kRows[] = {
#define HOP(name, prefix, effects, floats, broken, function) \
  {#name, prefix, Effects::effects, Floats::floats, Broken::broken, &function},
#include "hop/higher_order.def"
#undef HOP
};

/// The operator's attribute `_name`.
std::string_view name_of(PyObject* op) {
  static PyObject* const attribute = of_torch::attribute(of_torch::OperatorName);
  Owned<> name = Owned<>::steal(PyObject_GetAttr(op, attribute));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  return text ? text : "";  // owned by the operator
}

/// True for a subclass of BaseHOP.
bool is_base_operator(PyObject* op) {
  PyObject* const type = of_torch::if_loaded(of_torch::BaseHop);
  return type && PyObject_TypeCheck(op, reinterpret_cast<PyTypeObject*>(type));
}

constexpr Row kBase = {"BaseHOP", "subgraph", Effects::Forbidden, Floats::Any, Broken::Any, &base_operator};

Value* call_operator(Trace& trace, Object* object, const Args& args) {
  if (!object->object) cannot(Reason::BodyUnsupported, "an operator that the program makes");
  const Row* row = row_of(object->object);
  if (!row) cannot(Reason::BodyUnsupported, std::string(name_of(object->object)));
  if (object->source) trace.facts.add({object->source, guards::Kind::Identity, share(object->object)});
  trace.enter_opaque();
  try {
    return row->call(trace, *row, object->object, args);
  } catch (const CannotCapture&) {
    if (row->broken == Broken::Error) trace.scope().refuse_in(row->name);
    throw;
  }
}

}  // namespace

const Row* row_of(PyObject* op) {
  const std::string_view name = name_of(op);
  for (const Row& row : kRows)
    if (name == row.name) return &row;
  return is_base_operator(op) ? &kBase : nullptr;
}

void register_operators() {
  Owned<> type = share(of_torch::object(of_torch::HigherOrderOperator));
  protocol::set_operator_call(reinterpret_cast<PyTypeObject*>(type.release()), &call_operator);
  // Functions of torch around operators; called uncaptured, they take another way.
  for (auto [file, name] : of_torch::places(of_torch::WrapperOfOperator))
    protocol::add_function_model(file, name, &protocol::traced_whole);
  protocol::add_function_model(of_torch::Checkpoint, &checkpoint);
  protocol::add_model("torch", "is_grad_enabled", &is_grad_enabled);
  protocol::add_function_model(of_torch::SelectiveContexts, &selective_contexts);
  protocol::add_function_model(of_torch::Region, &region);
  register_autograd_function();
  register_leaf_functions();
}

}  // namespace gramme::hop
