// Types of values, instance checks and construction.
#include "base/once.h"
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

PyTypeObject* named(const char* module, const char* name) {
  Owned<> imported = take(PyImport_ImportModule(module));
  return reinterpret_cast<PyTypeObject*>(take(PyObject_GetAttrString(imported.get(), name)).release());
}

/// Of an iterator over the items or entries of a container.
PyTypeObject* walk_type(Iterator* iterator) {
  Value* over = iterator->parts.empty() ? nullptr : iterator->parts[0];
  bool backwards = iterator->increment < 0;
  auto* view = over ? as<View>(over) : nullptr;
  if (view) over = view->dict;
  if (!over) return nullptr;
  auto* dict = as<Dict>(over);
  if (dict && PyType_IsSubtype(dict->type, &PyODict_Type)) return &PyODictIter_Type;
  View::Which which = view ? view->which : View::Keys;
  static PyTypeObject* const kTypes[][2] = {{&PyDictIterKey_Type, &PyDictRevIterKey_Type},
                                            {&PyDictIterValue_Type, &PyDictRevIterValue_Type},
                                            {&PyDictIterItem_Type, &PyDictRevIterItem_Type}};
  if (dict || over->kind == Kind::InstanceDict) return kTypes[which][backwards];
  if (over->kind == Kind::Set) return &PySetIter_Type;
  if (over->kind == Kind::List) return &PyListIter_Type;
  return over->kind == Kind::Tuple ? &PyTupleIter_Type : nullptr;
}

PyTypeObject* iterator_type(Iterator* iterator) {
  PyTypeObject* const list_iterator =
      once([] { return Py_TYPE(take(PyObject_GetIter(take(PyList_New(0)).get())).get()); });
  switch (iterator->sort) {
    case Iterator::Sequence:
    case Iterator::Entries:
      if (PyTypeObject* type = walk_type(iterator)) return type;
      return list_iterator;
    case Iterator::Range:
      return &PyRangeIter_Type;
    case Iterator::Enumerate:
      return &PyEnum_Type;
    case Iterator::Zip:
      return &PyZip_Type;
    case Iterator::Map:
      return &PyMap_Type;
    case Iterator::Filter:
      return &PyFilter_Type;
    case Iterator::Reversed:
      return &PyReversed_Type;
    case Iterator::Chain:
    case Iterator::Repeat:
    case Iterator::Count:
    case Iterator::Cycle:
    case Iterator::Islice:
    case Iterator::StarMap:
    case Iterator::Accumulate:
    case Iterator::TakeWhile:
    case Iterator::DropWhile:
    case Iterator::CallUntil:
    case Iterator::Other:
      return list_iterator;
  }
  GRAMME_BUG("a value of no kind");
}

// ---- one for each kind whose row in kinds.def says ASKED

PyTypeObject* asked_type(Tensor* tensor) {
  PyTypeObject* const torch_tensor = once([] { return named("torch", "Tensor"); });
  return tensor->record->type ? tensor->record->type : torch_tensor;
}
PyTypeObject* asked_type(Number* number) { return number->type; }
PyTypeObject* asked_type(Tuple* tuple) { return tuple->type; }
PyTypeObject* asked_type(Dict* dict) { return dict->type; }
PyTypeObject* asked_type(Set* set) { return set->frozen ? &PyFrozenSet_Type : &PySet_Type; }
PyTypeObject* asked_type(Deque*) {
  PyTypeObject* const deque = once([] { return named("collections", "deque"); });
  return deque;
}
PyTypeObject* asked_type(View* view) {
  return view->which == View::Keys     ? &PyDictKeys_Type
         : view->which == View::Values ? &PyDictValues_Type
                                       : &PyDictItems_Type;
}
PyTypeObject* asked_type(Iterator* iterator) { return iterator_type(iterator); }
PyTypeObject* asked_type(Object* object) { return object->type; }
PyTypeObject* asked_type(Partial*) {
  PyTypeObject* const partial = once([] { return named("functools", "partial"); });
  return partial;
}
[[noreturn]] PyTypeObject* never_asked(Value* seen) {
  GRAMME_BUG(std::string("the type of a ") + kind_name(seen->kind));
}

Value* instance_check_by_python(Trace& trace, Class* cls, PyObject* hook_name, Value* subject) {
  PyTypeObject* meta = Py_TYPE(cls->object);
  PyObject* hook = trace.type_lookup(meta, hook_name);
  auto model = hook ? find_model(hook) : Modelled{};
  if (model && hook != cpython::type_lookup(&PyType_Type, hook_name)) {
    Value* values[] = {cls, subject};
    return model(trace, Args{values, 2, nullptr, 0});
  }
  if (!hook || !PyFunction_Check(hook)) return nullptr;
  PyTypeObject* const abc = once([] { return named("abc", "ABCMeta"); });
  if (hook == cpython::type_lookup(abc, hook_name)) {
    const char* name = hook_name == k_instancecheck ? "_abc_instancecheck" : "_abc_subclasscheck";
    PyObject* const module = once([] { return PyImport_ImportModule("_abc"); });
    return call(trace, trace.pinned(trace.keep(take(PyObject_GetAttrString(module, name)))), {cls, subject});
  }
  return call(trace, trace.type_attribute(meta, hook_name), {cls, subject});
}

bool real_subclass(Trace& trace, PyTypeObject* type, PyObject* cls) {
  if (PyType_Check(cls) && trace.is_subtype(type, reinterpret_cast<PyTypeObject*>(cls))) return true;
  return check(PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), cls)) > 0;
}

}  // namespace

PyTypeObject* type_of(Value* seen) {
  switch (seen->kind) {
#define FIXED(type) &type
#define OF_OBJECT Py_TYPE(seen->object)
#define ASKED asked_type(static_cast<T*>(seen))
#define NONE never_asked(seen)
#define KIND(name, properties, type, rebuilt, text) \
  case Kind::name: {                                \
    using T [[maybe_unused]] = value::name;         \
    return type;                                    \
  }
#include "value/kinds.def"
#undef KIND
#undef NONE
#undef ASKED
#undef OF_OBJECT
#undef FIXED
  }
  GRAMME_BUG("a value of no kind");
}

Value* class_value(Trace& trace, PyTypeObject* type) { return trace.pinned(reinterpret_cast<PyObject*>(type)); }

Value* payload_of(Trace& trace, Value* value) {
  value = trace.see(value);
  auto* object = as<Object>(value);
  return object && object->payload ? object->payload : value;
}

namespace {

/// An object that is no instance by its type is asked for its `__class__`, by code of the program where it has some.
void refuse_own_class(Trace& trace, Value* object) {
  static PyObject* const getattribute = intern("__getattribute__");
  if (object->kind != Kind::Object) return;
  PyTypeObject* type = static_cast<Object*>(object)->type;
  for (PyObject* name : {k_class, getattribute}) {
    PyObject* found = trace.type_lookup(type, name);
    bool in_c = found && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type));
    if (!in_c)
      cannot(Reason::OpaqueCallback, std::string("isinstance() of a ") + type->tp_name + ", which tells its own class");
  }
}

/// `int | str`: one after the other.
Value* parts_of_union(Trace& trace, Value* classinfo) {
  static PyObject* const args = intern("__args__");
  if (classinfo->kind != Kind::Constant) return nullptr;
  Owned<> parts = Owned<>::steal(PyObject_GetAttr(classinfo->object, args));
  if (!parts) PyErr_Clear();
  if (!parts || !PyTuple_Check(parts.get())) return nullptr;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts.get(), i);
    if (!PyType_Check(part)) return nullptr;
    items.push_back(trace.pinned(part));
  }
  return trace.tuple(std::move(items));
}

}  // namespace

bool isinstance(Trace& trace, Value* object, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (Value* parts = parts_of_union(trace, classinfo)) classinfo = parts;
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (isinstance(trace, object, one)) return true;
    return false;
  }
  object = trace.see(object);
  PyTypeObject* type = type_of(object);
  if (auto* cls = as<Class>(classinfo)) {
    if (type == cls->type()) return true;
    if (!PyType_IsSubtype(type, cls->type())) refuse_own_class(trace, object);
    if (Value* answer = instance_check_by_python(trace, cls, k_instancecheck, object)) return truth(trace, answer);
    return real_subclass(trace, type, cls->object);
  }
  if (classinfo->kind == Kind::Constant) return real_subclass(trace, type, classinfo->object);  // int | str
  if (auto* other = as<Object>(classinfo); other && other->object && !special_method(trace, other, k_instancecheck))
    raise(trace, PyExc_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union");
  if (Value* check = special_method(trace, classinfo, k_instancecheck))
    return truth(trace, call(trace, check, {object}));
  raise(trace, PyExc_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union");
}

bool issubclass(Trace& trace, Value* cls, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (Value* parts = parts_of_union(trace, classinfo)) classinfo = parts;
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (issubclass(trace, cls, one)) return true;
    return false;
  }
  auto* subject = trace.see_as<Class>(cls);
  if (!subject) raise(trace, PyExc_TypeError, "issubclass() arg 1 must be a class");
  if (auto* of = as<Class>(classinfo)) {
    if (Value* answer = instance_check_by_python(trace, of, k_subclasscheck, subject)) return truth(trace, answer);
    return real_subclass(trace, subject->type(), of->object);
  }
  if (classinfo->kind == Kind::Constant) return real_subclass(trace, subject->type(), classinfo->object);
  raise(trace, PyExc_TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union");
}

bool callable(Trace& trace, Value* object) {
  object = trace.see(object);
  switch (object->kind) {
    case Kind::Function:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Partial:
      return true;
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Tensor:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Cell:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::Object:
    case Kind::InstanceDict:
    case Kind::Super:
    case Kind::Null:
      return trace.type_lookup(type_of(object), k_call) != nullptr;
  }
  GRAMME_BUG("a value of no kind");
}

namespace {

/// The argument of tuple.__new__, list(), … as items.
std::vector<Value*> items_of_first(Trace& trace, const Args& args) {
  return args.positional ? items_of(trace, args[0]) : std::vector<Value*>();
}

bool is_subtype(PyTypeObject* type, PyTypeObject* base) { return PyType_IsSubtype(type, base); }

Value* tuple_instance(Trace& trace, PyTypeObject* type, const Args& args) {
  Tuple* items = trace.tuple(items_of_first(trace, args));
  bool transparent = type->tp_dictoffset == 0 && !cpython::has_managed_dict(type);
  if (transparent) {
    items->type = type;
    return items;
  }
  auto* object = trace.make<Object>();
  object->type = type;
  object->payload = items;
  return object;
}

/// The payload that the type's base in C holds, or null for a plain object. Ends the segment for bases gramme does not
/// model.
Value* payload_for(Trace& trace, PyTypeObject* type, const Args& args) {
  PyTypeObject* base = cpython::builtin_base(type);
  if (!base) cannot(Reason::CallUnknown, std::string(type->tp_name) + "(), which an extension module makes");
  if (is_subtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return trace.tuple(std::vector<Value*>(args.values, args.values + args.positional));
  if (is_subtype(type, &PyDict_Type)) {
    Dict* dict = trace.dict();
    if (is_subtype(type, &PyODict_Type)) dict->type = &PyODict_Type;
    PyTypeObject* const defaultdict = once([] { return named("collections", "defaultdict"); });
    if (is_subtype(type, defaultdict)) cannot(Reason::CallUnknown, "a subclass of defaultdict");
    return dict;
  }
  if (is_subtype(type, &PyList_Type)) return trace.list({});
  if (is_subtype(type, &PySet_Type)) return trace.make<Set>();
  if (base != &PyBaseObject_Type) cannot(Reason::CallUnknown, std::string(type->tp_name) + "()");
  return nullptr;
}

void initialise(Trace& trace, Value* instance, const Args& args, bool own_new) {
  PyTypeObject* type = type_of(instance);
  PyObject* init = trace.type_lookup(type, k_init);
  if (init && PyFunction_Check(init)) {
    Value* result = call(trace, bind(trace, init, trace.type_attribute(type, k_init), instance, type), args);
    if (trace.see(result) != trace.none())
      raise(trace, PyExc_TypeError,
            std::string("__init__() should return None, not '") + type_of(trace.see(result))->tp_name + "'");
    return;
  }
  auto* object = as<Object>(instance);
  if (!object || PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return;
  if (object->payload && (args.positional || args.keywords)) {
    call(trace, bind(trace, init, trace.type_attribute(type, k_init), instance, type), args);
    return;
  }
  if ((args.positional || args.keywords) && !own_new && !object->payload)
    raise(trace, PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
}

/// type.__new__(meta, name, bases, names, **keywords)
Value* new_type(Trace& trace, PyTypeObject* meta, const Args& args) {
  auto* bases = args.positional == 3 ? trace.see_as<Tuple>(args[1]) : nullptr;
  auto* names = bases ? trace.see_as<Dict>(args[2]) : nullptr;
  if (!names) cannot(Reason::ArgumentKind, "type.__new__()");
  Attributes keywords;
  for (size_t i = 0; i < args.keywords; ++i) keywords.push_back({args.names[i], args[3 + i]});
  return make_class(trace, meta, args[0], bases->items, names, keywords);
}

/// Whether a class is abstract may be assigned.
void guard_abstract(Trace& trace, PyTypeObject* type) {
  static PyObject* const name = intern("__abstractmethods__");
  PyObject* methods = Py_IS_TYPE(type, &PyType_Type) ? nullptr : PyDict_GetItem(type->tp_dict, name);
  if (!methods || trace.is_made(type)) return;
  const source::Source* cls = trace.pool->pinned(reinterpret_cast<PyObject*>(type));
  trace.guard({trace.pool->child(cls, source::Kind::TypeAttr, name), guards::Kind::Identity, share(methods)});
}

/// object.__new__ refuses classes with abstract methods; the constructors of other bases do not ask.
void refuse_abstract(Trace& trace, PyTypeObject* type) {
  Owned<> none = take(PyTuple_New(0));
  if (!Owned<>::steal(PyBaseObject_Type.tp_new(type, none.get(), nullptr))) raise_current(trace);
}

}  // namespace

Value* allocate(Trace& trace, Class* cls, const Args& args) {
  PyTypeObject* type = cls->type();
  if (is_subtype(type, &PyType_Type)) return new_type(trace, type, args);
  static PyObject* del = intern("__del__");
  if (trace.type_lookup(type, del))
    cannot(Reason::CallSkipped, std::string("an object with __del__: ") + type->tp_name + "()");
  if (is_subtype(type, &PyTuple_Type)) return tuple_instance(trace, type, args);
  Value* payload = payload_for(trace, type, args);
  static PyObject* finalizer = intern("__del__");
  if (trace.type_lookup(type, finalizer))
    cannot(Reason::CallUnknown, std::string(type->tp_name) + "(), a class with __del__");
  guard_abstract(trace, type);
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) {
    bool excess = (args.positional || args.keywords) && type->tp_init == PyBaseObject_Type.tp_init;  // refused before
    if (payload || excess) cannot(Reason::CallUnknown, std::string("abstract ") + type->tp_name + "()");
    refuse_abstract(trace, type);
  }
  if (payload && (type == &PyDict_Type || type == &PyODict_Type || type == &PyList_Type || type == &PySet_Type))
    return payload;
  auto* object = trace.make<Object>();
  object->type = type;
  object->payload = payload;
  return object;
}

Value* construct(Trace& trace, Class* cls, const Args& args) {
  PyTypeObject *type = cls->type(), *meta = Py_TYPE(type);
  PyObject* meta_call = meta == &PyType_Type ? nullptr : trace.type_lookup(meta, k_call);
  if (meta_call && PyFunction_Check(meta_call))
    return call(trace, bind(trace, meta_call, trace.type_attribute(meta, k_call), cls, meta), args);
  if (type->tp_new == nullptr)
    raise(trace, PyExc_TypeError, std::string("cannot create '") + type->tp_name + "' instances");
  PyObject* maker = trace.type_lookup(type, k_new);
  Value* instance;
  bool own_new = maker && Py_IS_TYPE(maker, &PyStaticMethod_Type);
  if (own_new) {
    std::vector<Value*> all{cls};
    all.insert(all.end(), args.values, args.values + args.positional + args.keywords);
    Value* function = bind(trace, maker, trace.type_attribute(type, k_new), nullptr, type);
    instance = trace.see(call(trace, function, Args{all.data(), args.positional + 1, args.names, args.keywords}));
    if (!trace.is_subtype(type_of(instance), type)) return instance;
  } else {
    instance = allocate(trace, cls, args);
  }
  initialise(trace, instance, args, own_new);
  return instance;
}

}  // namespace gramme::protocol
