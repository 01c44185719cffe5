// New instances, as type.__call__ and the constructors of C types make them.
#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

/// The items of the argument of tuple.__new__, list(), …
std::vector<Value*> items_of_first(Trace& trace, const Args& args) {
  return args.positional ? items_of_tuple(trace, args[0]) : std::vector<Value*>();
}

bool is_subtype(PyTypeObject* type, PyTypeObject* base) { return PyType_IsSubtype(type, base); }

/// The `tp_new` of the nearest C base, past Python classes with their own `__new__`.
newfunc maker_in_c(PyTypeObject* type) {
  const newfunc by_python = once([] { return imported_type("abc", "ABCMeta"); })->tp_new;
  while (type->tp_new == by_python && type->tp_base) type = type->tp_base;
  return type->tp_new;
}

Value* tuple_instance(Trace& trace, PyTypeObject* type, const Args& args) {
  if (args.keywords || args.positional > 1 || maker_in_c(type) != PyTuple_Type.tp_new)
    cannot(Reason::ArgumentKind, std::string(type->tp_name) + "()");
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

PyTypeObject* base_exception() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseException); }

/// Ends the segment at exception constructors that do more than keep their arguments; those of OSError and SyntaxError
/// do so from the second argument on.
void refuse_constructor(PyTypeObject* type, const Args& args, bool own_init) {
  auto is = [](auto function, auto slot, std::initializer_list<PyObject*> types) {
    return std::any_of(types.begin(), types.end(),
                       [=](PyObject* each) { return function == reinterpret_cast<PyTypeObject*>(each)->*slot; });
  };
  const bool looks = args.positional > 1 || args.keywords;
  const newfunc maker = maker_in_c(type);
  bool known = is(maker, &PyTypeObject::tp_new, {PyExc_BaseException, PyExc_MemoryError}) ||
               (!looks && is(maker, &PyTypeObject::tp_new, {PyExc_OSError}));
  if (!own_init)
    known = known && !args.keywords &&
            (is(type->tp_init, &PyTypeObject::tp_init,
                {PyExc_BaseException, PyExc_StopIteration, PyExc_SystemExit, PyExc_ImportError, PyExc_AttributeError,
                 PyExc_NameError}) ||
             (!looks && is(type->tp_init, &PyTypeObject::tp_init, {PyExc_OSError, PyExc_SyntaxError})));
  if (!known) cannot(Reason::ArgumentKind, std::string(type->tp_name) + "() with what it looks at");
}

/// The payload for the type's builtin base, or null for a plain object. Ends the segment for bases that are not
/// modelled.
Value* payload_for(Trace& trace, PyTypeObject* type, const Args& args) {
  PyTypeObject* base = cpython::builtin_base(type);
  if (!base) cannot(Reason::CallUnknown, std::string(type->tp_name) + "(), which an extension module makes");
  if (is_subtype(type, base_exception()))
    return trace.tuple(std::vector<Value*>(args.values, args.values + args.positional));
  if (is_subtype(type, &PyDict_Type)) {
    Dict* dict = trace.dict();
    if (is_subtype(type, &PyODict_Type)) dict->type = &PyODict_Type;
    PyTypeObject* const defaultdict = once([] { return imported_type("collections", "defaultdict"); });
    if (is_subtype(type, defaultdict)) cannot(Reason::CallUnknown, "a subclass of defaultdict");
    return dict;
  }
  if (is_subtype(type, &PyList_Type)) return trace.list({});
  if (is_subtype(type, &PySet_Type)) return trace.make<Set>();
  if (base != &PyBaseObject_Type) cannot(Reason::CallUnknown, std::string(type->tp_name) + "()");
  return nullptr;
}

bool has_own_init(Trace& trace, PyTypeObject* type) {
  PyObject* init = trace.type_lookup(type, k_init);
  return init && !Py_IS_TYPE(init, &PyWrapperDescr_Type);
}

void initialise(Trace& trace, Class* cls, Value* instance, const Args& args, bool own_new) {
  PyTypeObject* type = type_of(instance);
  PyObject* init = trace.type_lookup(type, k_init);
  if (init && PyFunction_Check(init)) {
    if (trace.inliner) trace.inliner->enter_init(cls, cpython::code_of(cpython::as_function(init)));
    Value* result = call(trace, bind(trace, init, trace.type_attribute(type, k_init), instance, type), args);
    if (trace.see(result) != trace.none())
      raise(trace, PyExc_TypeError,
            std::string("__init__() should return None, not '") + type_of(trace.see(result))->tp_name + "'");
    return;
  }
  trace.enter_opaque();
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

/// Guards whether a class is abstract, which may be assigned.
void guard_abstract(Trace& trace, PyTypeObject* type) {
  static PyObject* const name = intern("__abstractmethods__");
  PyObject* methods = Py_IS_TYPE(type, &PyType_Type) ? nullptr : PyDict_GetItem(type_dict(type), name);
  if (!methods || trace.is_made(type)) return;
  const source::Source* cls = trace.pool->pinned(reinterpret_cast<PyObject*>(type));
  trace.facts.add({trace.pool->child(cls, source::Kind::TypeAttr, name), guards::Kind::Identity, share(methods)});
}

/// Raises the TypeError of object.__new__ for classes with abstract methods; other bases' constructors do not check.
void refuse_abstract(Trace& trace, PyTypeObject* type) {
  Owned<> none = take(PyTuple_New(0));
  if (!Owned<>::steal(PyBaseObject_Type.tp_new(type, none.get(), nullptr))) raise_current(trace);
}

AtLoad<WrapperMaker> wrapper_maker;

}  // namespace

void set_wrapper_maker(WrapperMaker maker) { wrapper_maker.fill() = maker; }

Value* allocate(Trace& trace, Class* cls, const Args& args) {
  PyTypeObject* type = cls->type();
  if (is_subtype(type, &PyType_Type)) return new_type(trace, type, args);
  static PyObject* const del = intern("__del__");
  if (trace.type_lookup(type, del))
    cannot(Reason::CallSkipped, std::string("an object with __del__: ") + type->tp_name + "()");
  if (is_subtype(type, &PyTuple_Type)) return tuple_instance(trace, type, args);
  if (is_subtype(type, base_exception())) refuse_constructor(type, args, has_own_init(trace, type));
  Value* payload = payload_for(trace, type, args);
  static PyObject* const finalizer = intern("__del__");
  if (trace.type_lookup(type, finalizer))
    cannot(Reason::CallUnknown, std::string(type->tp_name) + "(), a class with __del__");
  guard_abstract(trace, type);
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) {
    bool excess = (args.positional || args.keywords) && type->tp_init == PyBaseObject_Type.tp_init;  // raised before
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
  const bool is_plain = meta->tp_call == PyType_Type.tp_call && type->tp_new == PyBaseObject_Type.tp_new;
  if (!is_plain || trace.is_made(type)) trace.enter_opaque();
  PyObject* meta_call = meta == &PyType_Type ? nullptr : trace.type_lookup(meta, k_call);
  if (meta_call && PyFunction_Check(meta_call))
    return call(trace, bind(trace, meta_call, trace.type_attribute(meta, k_call), cls, meta), args);
  PyObject* const types_call = once([] { return cpython::type_lookup(&PyType_Type, k_call); });
  if (meta_call && Py_TYPE(meta_call) != Py_TYPE(types_call))
    cannot(Reason::CallUnknown, std::string("the __call__ of ") + meta->tp_name);
  if (type->tp_new == nullptr)
    raise(trace, PyExc_TypeError, std::string("cannot create '") + type->tp_name + "' instances");
  if (Value* wrapper = (*wrapper_maker)(trace, cls, args)) return wrapper;
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
  initialise(trace, cls, instance, args, own_new);
  return instance;
}

}  // namespace gramme::protocol
