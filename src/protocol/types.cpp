// Types of values, instance checks and construction.
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

PyTypeObject* view_type(View::Which which) {
  return which == View::Keys ? &PyDictKeys_Type : which == View::Values ? &PyDictValues_Type : &PyDictItems_Type;
}

PyTypeObject* iterator_type(Iterator* iterator) {
  static PyTypeObject* list_iterator = Py_TYPE(take(PyObject_GetIter(take(PyList_New(0)).get())).get());
  switch (iterator->sort) {
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
    default:
      return list_iterator;
  }
}

Value* instance_check_by_python(Trace& trace, Class* cls, PyObject* hook_name, Value* subject) {
  PyTypeObject* meta = Py_TYPE(cls->object);
  PyObject* hook = trace.type_lookup(meta, hook_name);
  Model model = hook ? find_model(hook) : nullptr;
  if (model && hook != cpython::type_lookup(&PyType_Type, hook_name)) {
    Value* values[] = {cls, subject};
    return model(trace, Args{values, 2, nullptr, 0});
  }
  if (!hook || !PyFunction_Check(hook)) return nullptr;
  static PyTypeObject* abc = named("abc", "ABCMeta");
  if (hook == cpython::type_lookup(abc, hook_name)) {
    const char* name = hook_name == k_instancecheck ? "_abc_instancecheck" : "_abc_subclasscheck";
    static PyObject* module = PyImport_ImportModule("_abc");
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
  static PyTypeObject* torch_tensor = named("torch", "Tensor");
  static PyTypeObject* deque = named("collections", "deque");
  static PyTypeObject* partial = named("functools", "partial");
  switch (seen->kind) {
    case Kind::Constant:
    case Kind::Builtin:
    case Kind::Class:
    case Kind::Module:
      return Py_TYPE(seen->object);
    case Kind::Tensor:
      return static_cast<Tensor*>(seen)->record->type ? static_cast<Tensor*>(seen)->record->type : torch_tensor;
    case Kind::Number:
      return static_cast<Number*>(seen)->type;
    case Kind::Tuple:
      return static_cast<Tuple*>(seen)->type;
    case Kind::List:
      return &PyList_Type;
    case Kind::Dict:
      return static_cast<Dict*>(seen)->type;
    case Kind::Set:
      return static_cast<Set*>(seen)->frozen ? &PyFrozenSet_Type : &PySet_Type;
    case Kind::Deque:
      return deque;
    case Kind::Slice:
      return &PySlice_Type;
    case Kind::View:
      return view_type(static_cast<View*>(seen)->which);
    case Kind::Iterator:
      return iterator_type(static_cast<Iterator*>(seen));
    case Kind::Generator:
      return &PyGen_Type;
    case Kind::Function:
      return &PyFunction_Type;
    case Kind::Cell:
      return &PyCell_Type;
    case Kind::Method:
      return &PyMethod_Type;
    case Kind::BuiltinMethod:
      return &PyCFunction_Type;
    case Kind::Namespace:
    case Kind::InstanceDict:
      return &PyDict_Type;
    case Kind::Object:
      return static_cast<Object*>(seen)->type;
    case Kind::Partial:
      return partial;
    case Kind::Super:
      return &PySuper_Type;
    case Kind::Lazy:
    case Kind::Null:
      break;
  }
  GRAMME_BUG(std::string("the type of a ") + kind_name(seen->kind));
}

Value* class_value(Trace& trace, PyTypeObject* type) { return trace.pinned(reinterpret_cast<PyObject*>(type)); }

Value* payload_of(Trace& trace, Value* value) {
  value = trace.see(value);
  auto* object = as<Object>(value);
  return object && object->payload ? object->payload : value;
}

bool isinstance(Trace& trace, Value* object, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (isinstance(trace, object, one)) return true;
    return false;
  }
  object = trace.see(object);
  PyTypeObject* type = type_of(object);
  if (auto* cls = as<Class>(classinfo)) {
    if (type == cls->type()) return true;
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
    default:
      return trace.type_lookup(type_of(object), k_call) != nullptr;
  }
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
  if (is_subtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return trace.tuple(std::vector<Value*>(args.values, args.values + args.positional));
  if (is_subtype(type, &PyDict_Type)) {
    Dict* dict = trace.dict();
    if (is_subtype(type, &PyODict_Type)) dict->type = &PyODict_Type;
    static PyTypeObject* defaultdict = named("collections", "defaultdict");
    if (is_subtype(type, defaultdict)) cannot(Reason::CallUnknown, "a subclass of defaultdict");
    return dict;
  }
  if (is_subtype(type, &PyList_Type)) return trace.list({});
  if (is_subtype(type, &PySet_Type)) return trace.make<Set>();
  PyTypeObject* base = type;
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE && base->tp_base) base = base->tp_base;
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
