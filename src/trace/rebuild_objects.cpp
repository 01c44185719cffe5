// How replay makes functions, instances and their attributes.
#include "aten/arrays.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "trace/arrays.h"
#include "trace/made_by_graph.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

namespace {
PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }

/// True if a data descriptor of the type hides the instance dict's entry of that name.
bool is_shadowed(PyTypeObject* type, PyObject* name) {
  PyObject* found = cpython::type_lookup(type, name);
  return found && Py_TYPE(found)->tp_descr_set;
}
}  // namespace

Register Rebuilder::make_new(Function* function) {
  Register globals = (*this)(function->globals);
  auto optional = [&](Value* value) { return value ? (*this)(value) : kNull; };
  std::vector<Register> parts{constant(function->name),        constant(function->qualname),
                              optional(function->defaults),    optional(function->kwdefaults),
                              optional(function->annotations), kNull,
                              optional(function->annotate)};
  if (!function->closure.empty()) {
    // Cells first and empty, so that a function may be in its own closure.
    for (Value* cell : function->closure) {
      if (cell->source || memo_.contains(cell)) continue;
      memo_[cell] = made(ReplayKind::MakeCell);
    }
    std::vector<Register> cells = all(function->closure);
    parts[5] = made(ReplayKind::MakeTuple);
    operands(replay_.ops.back(), cells);
  }
  if (auto* known = remembered(function)) return *known;
  Register result = made(ReplayKind::MakeFunction, reinterpret_cast<PyObject*>(function->code));
  replay_.ops.back().a = globals;
  operands(replay_.ops.back(), parts);
  memo_[function] = result;
  for (Value* closed : function->closure)
    if (!closed->source) fill_cell(static_cast<Cell*>(closed));
  store_attributes(result, function->fields);
  store_attributes(result, function->attributes, &PyFunction_Type);
  return result;
}

/// Stores into the instance dict, past a data descriptor of the type (`type` is null if there is none); a null value
/// deletes.
void Rebuilder::store_attribute(Register target, PyObject* name, Value* value, PyTypeObject* type) {
  bool shadowed = type && is_shadowed(type, name);
  Register content = value ? (*this)(value) : kNull;
  ReplayOp& store = op(value      ? shadowed ? ReplayKind::StoreOwn : ReplayKind::StoreAttr
                       : shadowed ? ReplayKind::DeleteOwn
                                  : ReplayKind::DeleteAttr);
  store.a = target;
  store.b = content;
  store.object = share(name);
}

void Rebuilder::store_attributes(Register target, const Attributes& attributes, PyTypeObject* type) {
  for (const Attribute& attribute : attributes)
    if (attribute.value) store_attribute(target, attribute.name, attribute.value, type);
}

/// Stores by the slot's descriptor; for a class made in the capture it is looked up, since each run makes a new one.
void Rebuilder::store_slot(Register target, PyObject* name, Value* value, PyTypeObject* type) {
  PyObject* member = trace_.is_made(type) ? nullptr : cpython::type_lookup(type, name);
  if (!member || cpython::slot_offset(member, type) < 0) return store_attribute(target, name, value, nullptr);
  Register content = value ? (*this)(value) : kNull;
  ReplayOp& store = op(ReplayKind::StoreSlot);
  store.a = target;
  store.b = content;
  store.object = share(member);
}

/// An array by tensor.numpy(), which shares memory; for a NumPy scalar the item of that array.
Register Rebuilder::make_array(const Object* object, const Array& array) {
  if (array.tensor->record->requires_grad || array.tensor->altered) unsupported("an array over a changed tensor");
  if (array.view_of)
    trace_.progress.stop_at(array.tensor->made_at, Reason::ReplayUnsupported,
                            "a view of an array that no tensor can be");
  PyTypeObject* const tensor = once([] { return imported_type("torch", "Tensor"); });
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  const Register whole = call_method(tensor, "numpy", {(*this)(array.tensor)});
  if (object->type != aten::array_type()) return call(getitem, {whole, constant(take(PyTuple_New(0)).get())});
  if (!array.writeable) call_method(aten::array_type(), "setflags", {whole, constant(Py_False)});
  return whole;
}

Register Rebuilder::make_new(Object* object) {
  const auto& of_graph = trace_.scope().state<MadeByGraph>().nodes;
  if (const auto made = of_graph.find(object); made != of_graph.end()) return output(made->second);
  if (const Array* array = array_of(trace_, object)) return make_array(object, *array);
  bool exception = PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  if (object->type == &PyTraceBack_Type) unsupported("a traceback");
  if (object->type == &_PyWeakref_RefType || is_address(object)) {
    Register referent = (*this)(object->attributes.at(0).value);
    return call(is_address(object) ? builtin("id") : reinterpret_cast<PyObject*>(object->type), {referent});
  }
  if (object->type == &PyDictProxy_Type)
    return call(reinterpret_cast<PyObject*>(object->type), {(*this)(object->payload)});
  PyObject* const simple_namespace = once([] { return imported("types", "SimpleNamespace").release(); });
  if (std::optional<Register> descriptor = make_descriptor(object)) return *descriptor;
  bool plain = object->type == &PyBaseObject_Type || reinterpret_cast<PyObject*>(object->type) == simple_namespace;
  if (!(object->type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !exception && !plain)
    unsupported(std::string("a new ") + object->type->tp_name);
  if (!plain && !cpython::builtin_base(object->type))
    unsupported(std::string("a new ") + object->type->tp_name + ", which an extension module makes");
  bool of_made = trace_.is_made(object->type);
  Register cls = of_made ? (*this)(trace_.pinned(reinterpret_cast<PyObject*>(object->type))) : kNull;
  auto* type = of_made ? nullptr : reinterpret_cast<PyObject*>(object->type);
  Register result;
  if (exception) {
    std::vector<Register> args = all(static_cast<Tuple*>(object->payload)->items);
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeObject, type);
    replay_.ops.back().a = cls;
    operands(replay_.ops.back(), args);
  } else if (auto* tuple = object->payload ? as<Tuple>(object->payload) : nullptr) {
    if (of_made) unsupported("a tuple of a class made in the capture");
    std::vector<Register> items = all(tuple->items);
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeTuple, type);
    operands(replay_.ops.back(), items);
  } else {
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeObject, type);
    replay_.ops.back().a = cls;
  }
  memo_[object] = result;
  if (object->payload && object->payload->kind == Kind::Constant)
    unsupported("a new instance of a subclass of a number or text");
  if (object->payload && !exception) {
    memo_[object->payload] = result;
    if (auto* dict = as<Dict>(object->payload)) fill_dict(result, dict->entries);
    if (auto* list = as<List>(object->payload); list && !list->items().empty())
      with_operands(ReplayKind::FillList, result, all(list->items()));
    if (auto* set = as<Set>(object->payload)) {
      if (set->frozen) unsupported("a new instance of a subclass of frozenset");
      fill_set(result, set, ReplayKind::FillSet);
    }
  }
  for (const Attribute& slot : object->slots)
    if (slot.value) store_slot(result, slot.name, slot.value, object->type);
  store_attributes(result, object->attributes, object->type);
  if (exception) describe_exception(result, object);
  return result;
}

Register Rebuilder::make_new(Partial* partial) {
  Register function = (*this)(partial->function);
  std::vector<Register> args = all(partial->args), keywords;
  for (Attribute& keyword : partial->keywords) {
    keywords.push_back(constant(keyword.name));
    keywords.push_back((*this)(keyword.value));
  }
  if (auto* known = remembered(partial)) return *known;
  Register tuple = made(ReplayKind::MakeTuple);
  operands(replay_.ops.back(), args);
  Register dict = made(ReplayKind::MakeDict);
  with_operands(ReplayKind::FillDict, dict, keywords);
  Register result = made(ReplayKind::MakePartial);
  ReplayOp& made_partial = replay_.ops.back();
  made_partial.a = function;
  made_partial.b = tuple;
  made_partial.c = dict;
  memo_[partial] = result;
  store_attributes(result, partial->attributes);
  return result;
}

}  // namespace gramme::trace
