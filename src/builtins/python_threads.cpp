// threading.local, whose attributes are in a dict for each thread.
#include "base/text.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"
#include "protocol/names.h"

namespace gramme::builtins {
namespace {

namespace names = protocol::names;
using value::Dict;
using value::Object;

/// True if the first access in a thread runs no Python (__init__ is object's).
bool starts_empty(PyTypeObject* type) { return type->tp_init == PyBaseObject_Type.tp_init; }

Object* local_argument(Trace& trace, Value* self) {
  auto* local = trace.see_as<Object>(self);
  if (!local || !local->existing() || !local->object || !cpython::is_thread_local(local->object))
    cannot(Reason::ArgumentKind, "a threading.local made in the capture");
  return local;
}

/// The dict of attributes in this thread; creates it if need be.
Dict* attributes_of(Trace& trace, Object* local) {
  if (!cpython::thread_dict(local->object) && starts_empty(local->type))
    take(PyObject_GetAttr(local->object, names::k_dict));
  PyObject* dict = cpython::thread_dict(local->object);
  if (!dict) cannot(Reason::ArgumentKind, "a threading.local that the thread has not asked yet");
  return trace.see_as<Dict>(trace.wrap(dict, trace.pool->child(local->source, source::Kind::ThreadDict)));
}

[[noreturn]] void no_attribute(Trace& trace, Object* local, PyObject* name) {
  protocol::raise(trace, PyExc_AttributeError,
                  std::string("'") + local->type->tp_name + "' object has no attribute '" + utf8_of(name) + "'");
}

Value* get_local(Trace& trace, const Args& args) {
  auto [self, named] = positional<2>(args, 2);
  Object* local = local_argument(trace, self);
  PyObject* name = name_argument(trace, named);
  if (name == names::k_class) return protocol::class_value(trace, local->type);
  Dict* attributes = attributes_of(trace, local);
  if (name == names::k_dict) return attributes;
  PyObject* found = trace.type_lookup(local->type, name);
  const bool data = found && Py_TYPE(found)->tp_descr_set;
  Value* own = data ? nullptr : trace.dict_get(attributes, trace.constant(name));
  if (own) return own;
  if (!found) no_attribute(trace, local, name);
  return protocol::bind(trace, found, trace.type_attribute(local->type, name), local, local->type);
}

/// The dict to which an attribute is written.
Dict* written_to(Trace& trace, Object* local, PyObject* name) {
  PyObject* found = trace.type_lookup(local->type, name);
  if (name == names::k_dict || (found && Py_TYPE(found)->tp_descr_set))
    cannot(Reason::MutationUnsupported, "an attribute of a threading.local that its class describes");
  return attributes_of(trace, local);
}

Value* set_local(Trace& trace, const Args& args) {
  auto [self, named, item] = positional<3>(args, 3);
  Object* local = local_argument(trace, self);
  PyObject* name = name_argument(trace, named);
  trace.dict_set(written_to(trace, local, name), trace.constant(name), item);
  return trace.none();
}

Value* delete_local(Trace& trace, const Args& args) {
  auto [self, named] = positional<2>(args, 2);
  Object* local = local_argument(trace, self);
  PyObject* name = name_argument(trace, named);
  if (!trace.dict_erase(written_to(trace, local, name), trace.constant(name))) no_attribute(trace, local, name);
  return trace.none();
}

}  // namespace

void register_threads() {
  add_rows("_thread", Takes::Asked,
           {
               {"_local.__getattribute__", &get_local},
               {"_local.__setattr__", &set_local},
               {"_local.__delattr__", &delete_local},
           });
}

}  // namespace gramme::builtins
