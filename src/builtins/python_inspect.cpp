// inspect: signatures, and attributes looked up without calling anything.
#include "base/once.h"
#include "base/text.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"

namespace gramme::builtins {
namespace {

using value::Function;

// ---- inspect.signature

/// An existing function, guarded by the parts that its signature depends on (perhaps those of a wrapped function); null
/// for others.
PyObject* described_function(Trace& trace, Value* value, int depth = 0) {
  static PyObject* const kWrapped = intern("__wrapped__");
  static PyObject* const kSignature = intern("__signature__");
  auto* function = trace.see_as<Function>(value);
  if (!function || !function->existing() || function->written || depth > 10) return nullptr;
  trace.describe(function);
  if (protocol::find_attribute(trace, function, kSignature)) return nullptr;
  Value* wrapped = protocol::find_attribute(trace, function, kWrapped);
  if (wrapped && !described_function(trace, wrapped, depth + 1)) return nullptr;
  return function->object;
}

/// inspect.signature: immutable, so it is made during the capture.
Value* signature(Trace& trace, const Args& args) {
  PyObject* const real_signature = once([] { return real("inspect", "signature"); });
  auto [callable] = positional<1>(args, 1);
  auto* method = trace.see_as<value::Method>(callable);
  PyObject* function = described_function(trace, method ? method->function : callable);
  if (!function) cannot(Reason::ArgumentKind, "inspect.signature() of anything but a Python function");
  Owned<> asked = method ? take(PyMethod_New(function, Py_None)) : share(function);
  return pin(trace, call_real(trace, real_signature, {asked.get()}));
}

// ---- inspect.getattr_static

/// getattr_static of an instance: a data descriptor of the class, else its own attribute, else the class's.
Value* get_static(Trace& trace, const Args& args) {
  static PyObject* const kDict = intern("__dict__");
  auto [subject, name, missing] = bind(args, 2, {"obj", "attr", "default"});
  Value* seen = trace.see(subject);
  auto* object = value::as<value::Object>(seen);
  PyTypeObject* type = protocol::type_of(seen);
  PyObject* dict = trace.type_lookup(type, kDict);
  if (dict && (!object || !Py_IS_TYPE(dict, &PyGetSetDescr_Type)))
    cannot(Reason::ArgumentKind, "inspect.getattr_static() of what has attributes of its own");
  PyObject* attribute = name_argument(trace, name);
  PyObject* found = trace.type_lookup(type, attribute);
  if (found && Py_TYPE(found)->tp_descr_get && Py_TYPE(found)->tp_descr_set)
    return trace.type_attribute(type, attribute);
  if (Value* own = dict ? trace.own_attribute(object, attribute) : nullptr) return own;
  if (found) return trace.type_attribute(type, attribute);
  if (missing) return missing;
  protocol::raise(trace, PyExc_AttributeError, utf8_of(attribute));
}

}  // namespace

void register_inspect() {
  add_rows("inspect", Takes::Asked, {{"signature", &signature}, {"getattr_static", &get_static}});
}

}  // namespace gramme::builtins
