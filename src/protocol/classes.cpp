// Classes that the program makes. A real type provides the layout (MRO, slots, name); the value holds the namespace.
#include "cpython/features.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

/// A real function of the same code, as a stand-in that is never called.
Owned<> likeness(Trace& trace, Function* function) {
  if (function->existing()) return share(function->object);
  trace.describe(function);
  Owned<> globals = take(PyDict_New());
  Owned<> made =
      take(PyFunction_NewWithQualName(reinterpret_cast<PyObject*>(function->code), globals.get(), function->qualname));
  for (const Attribute& attribute : function->attributes)  // __isabstractmethod__
    if (PyObject* constant = attribute.value ? trace.constant_of(attribute.value) : nullptr)
      check(PyObject_SetAttr(made.get(), attribute.name, constant));
  if (function->closure.empty()) return made;
  Owned<> cells = take(PyTuple_New(static_cast<Py_ssize_t>(function->closure.size())));
  for (size_t i = 0; i < function->closure.size(); ++i)
    PyTuple_SET_ITEM(cells.get(), static_cast<Py_ssize_t>(i), take(PyCell_New(nullptr)).release());
  check(PyFunction_SetClosure(made.get(), cells.get()));
  return made;
}

Owned<> part_of(Trace& trace, Object* object, PyObject* part) {
  Attribute* known = find(object->slots, part);
  return known ? stand_in(trace, trace.see(known->value)) : share(Py_None);
}

/// A stand-in: a new property, classmethod or staticmethod, or an allocated, uninitialised instance of a Python class.
Owned<> like_object(Trace& trace, Object* object) {
  auto* type = reinterpret_cast<PyObject*>(object->type);
  if (object->type == &PyProperty_Type)
    return take(PyObject_CallFunctionObjArgs(type, part_of(trace, object, k_fget).get(),
                                             part_of(trace, object, k_fset).get(), part_of(trace, object, k_fdel).get(),
                                             nullptr));
  if (object->type == &PyClassMethod_Type || object->type == &PyStaticMethod_Type)
    return take(PyObject_CallOneArg(type, part_of(trace, object, k_func).get()));
  static PyObject* const finalizer = intern("__del__");
  bool plain = object->type->tp_flags & Py_TPFLAGS_HEAPTYPE && !object->payload &&
               object->type->tp_new == PyBaseObject_Type.tp_new && !cpython::type_lookup(object->type, finalizer);
  if (!plain && object->type->tp_descr_get == nullptr && object->type->tp_descr_set == nullptr)
    return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!plain) cannot(Reason::CallUnknown, "a class made with a " + std::string(object->type->tp_name));
  Owned<> none = take(PyTuple_New(0));
  return take(PyBaseObject_Type.tp_new(object->type, none.get(), nullptr));
}

}  // namespace

Owned<> stand_in(Trace& trace, Value* seen) {
  switch (seen->kind) {
    case Kind::Function:
      return likeness(trace, static_cast<Function*>(seen));
    case Kind::Constant:
    case Kind::Class:
    case Kind::Builtin:
      return share(seen->object);
    case Kind::Object:
      return seen->existing() ? share(seen->object) : like_object(trace, static_cast<Object*>(seen));
    case Kind::Tensor:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Partial:
      return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
    case Kind::Lazy:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Cell:
    case Kind::Method:
    case Kind::BuiltinMethod:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::InstanceDict:
    case Kind::Super:
    case Kind::Null:
      cannot(Reason::CallUnknown, "a class made with a " + std::string(type_of(seen)->tp_name) + " in its namespace");
  }
  GRAMME_BUG("a value of no kind");
}

namespace {

/// The content of a new class: values, and a real stand-in for each.
struct ClassContent {
  Attributes attributes;
  std::vector<PyObject*> raws;
  Owned<> real = take(PyDict_New());
  Cell* cell = nullptr;       // __classcell__
  Cell* dict_cell = nullptr;  // __classdictcell__
};

/// The cell that type.__new__ fills. Ends the segment for a __classdictcell__ that other code may hold.
Cell* cell_to_fill(PyObject* name, Value* seen) {
  auto* cell = as<Cell>(seen);
  if (!cell) cannot(Reason::CallUnknown, "a " + text_of(name) + " that is not a cell");
  if (name == k_classdictcell && (cell->existing() || cell->dict_of))
    cannot(Reason::CallUnknown, "a " + text_of(name) + " that other code has");
  return cell;
}

ClassContent content_of(Trace& trace, Dict* names) {
  static PyObject* const class_cell = intern("__classcell__");
  static PyObject* const slots = intern("__slots__");  // type.__new__ reads its value, so it must be real
  static PyObject* const getitem = intern("__class_getitem__");
  static PyObject* const subclass = intern("__init_subclass__");
  ClassContent content;
  trace.load(names);
  names->entries.each([&](Table::Entry& entry) {
    PyObject* key = name_key(trace, entry.key);
    if (!key) cannot(Reason::CallUnknown, "a class made with names that are not str");
    Value* seen = trace.see(entry.value);
    if (key == class_cell) return void(content.cell = cell_to_fill(key, seen));
    if (GRAMME_PYTHON_CLASS_DICT_CELL && key == k_classdictcell)
      return void(content.dict_cell = cell_to_fill(key, seen));
    if (key == slots || (key == k_qualname && seen->kind != Kind::Constant))
      cannot(Reason::CallUnknown, "a class made with " + text_of(key) + " = a " + type_name(seen));
    bool of_class = key == getitem || key == subclass;
    if ((of_class || key == k_new) && seen->kind == Kind::Function)
      seen = method_descriptor(trace, of_class ? &PyClassMethod_Type : &PyStaticMethod_Type, seen);
    Owned<> raw = stand_in(trace, seen);
    check(PyDict_SetItem(content.real.get(), key, raw.get()));
    content.attributes.push_back({key, seen});
    content.raws.push_back(trace.keep(raw));
  });
  return content;
}

/// Calls `__set_name__` of everything in the namespace that has one, as type.__new__ does.
void tell_names(Trace& trace, Class* cls) {
  static PyObject* const set_name = intern("__set_name__");
  Attributes told = cls->attributes;
  for (const Attribute& attribute : told)
    if (type_of(attribute.value)->tp_flags & Py_TPFLAGS_HEAPTYPE)
      if (Value* method = special_method(trace, attribute.value, set_name)) try {
          call(trace, method, {cls, trace.constant(attribute.name)});
        } catch (const UserError&) {  // CPython makes it the cause of another exception
          cannot(Reason::CallUnknown, "a __set_name__ that raises");
        }
}

/// super(cls, cls).__init_subclass__(**keywords)
void init_subclass(Trace& trace, Class* cls, const Attributes& keywords) {
  static PyObject* const hook = intern("__init_subclass__");
  auto* above = trace.make<Super>();
  above->type = above->start_type = cls->type();
  above->self = cls;
  call_with(trace, get_attribute(trace, above, hook), {}, keywords);
}

}  // namespace

Value* method_descriptor(Trace& trace, PyTypeObject* type, Value* function) {
  auto* made = trace.make<Object>();
  made->type = type;
  made->slots.push_back({k_func, function});
  return made;
}

Value* make_class(Trace& trace, PyTypeObject* meta, Value* name, const std::vector<Value*>& bases, Dict* names,
                  const Attributes& keywords) {
  PyObject* text = trace.constant_of(name);
  if (!text || !PyUnicode_CheckExact(text)) cannot(Reason::ArgumentKind, "type() making a class");
  Owned<> real_bases = take(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
  for (size_t i = 0; i < bases.size(); ++i) {
    auto* base = trace.see_as<Class>(bases[i]);
    if (!base) cannot(Reason::CallUnknown, "a class whose base is not a class");
    if (!PyType_IsSubtype(meta, Py_TYPE(base->object)))
      cannot(Reason::CallUnknown, "a class made below another metaclass");
    PyTuple_SET_ITEM(real_bases.get(), static_cast<Py_ssize_t>(i), share(base->object).release());
  }
  ClassContent content = content_of(trace, names);
  if (!PyDict_GetItem(content.real.get(), k_module))
    cannot(Reason::CallUnknown, "a class made without the name of its module");
  PyObject* type = cpython::make_type(meta, text, real_bases.get(), content.real.get());
  if (!type) raise_current(trace);
  Class* made = trace.classes.add(Owned<>::steal(type), std::move(content.attributes), std::move(content.raws));
  if (content.cell) trace.store_cell(content.cell, made);
  if (content.dict_cell) trace.store_dict(content.dict_cell, made);
  tell_names(trace, made);
  init_subclass(trace, made, keywords);
  return made;
}

}  // namespace gramme::protocol
