// Texts and digests of described objects. A digest covers only what no fact of the guards checks.
#include "portable/object_ref.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/imported.h"
#include "base/once.h"
#include "base/sha256.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "portable/canonical.h"
#include "portable/digest.h"
#include "portable/raw.h"
#include "source/constant.h"

namespace gramme::portable {
namespace {

/// "torch.nn.modules.linear.Linear"
std::string name_of_type(PyTypeObject* type) {
  const std::string module = module_of(reinterpret_cast<PyObject*>(type));
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
  return module + "." + text_or_empty(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
}

/// The class's metaclass, MRO, and layout of instances, as text.
std::string layout_of(PyTypeObject* type) {
  std::string text = "class " + name_of_type(Py_TYPE(type));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    text += " " + name_of_type(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
  for (const Py_ssize_t number :
       {type->tp_basicsize, type->tp_itemsize, Py_ssize_t{type->tp_dictoffset}, Py_ssize_t{type->tp_weaklistoffset}})
    text += " " + std::to_string(number);
  return text;
}

/// The module's file with size and time of modification; "built in" if there is none.
std::string file_of_module(const std::string& name) {
  PyObject* module = module_named(name);
  const std::string file = module ? text_or_empty(child(module, {StepKind::Attr, "__file__"}).get()) : "";
  struct stat found;
  if (file.empty() || stat(file.c_str(), &found) != 0) return "built in";
  return file + " " + std::to_string(found.st_size) + " " + std::to_string(found.st_mtim.tv_sec) + "." +
         std::to_string(found.st_mtim.tv_nsec);
}

std::string of_code(PyObject* code) { return "code " + hex(digest_of(reinterpret_cast<PyCodeObject*>(code))); }

/// The classes in a tuple, or its items' classes, by name and in order.
std::string of_items(PyObject* tuple) {
  std::string text = "tuple of";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    text += " " + name_of_type(PyType_Check(item) ? reinterpret_cast<PyTypeObject*>(item) : Py_TYPE(item));
  }
  return text;
}

/// True for a descriptor of a named tuple's field, which returns the item of an index.
bool is_field(PyObject* object) {
  PyTypeObject* const type = once([] { return imported_type("_collections", "_tuplegetter"); });
  return Py_IS_TYPE(object, type);
}

/// The builtin value inside an instance of a builtin's subclass, or an enumeration member's value, as text.
std::string payload_of(PyObject* object) {
  static PyObject* const value_name = intern("_value_");  // no name of torch: of enumerations
  Owned<> plain;
  if (PyLong_Check(object)) plain = take(_PyLong_Copy(reinterpret_cast<PyLongObject*>(object)));
  if (PyFloat_Check(object)) plain = take(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
  if (PyUnicode_Check(object)) plain = take(PyUnicode_FromObject(object));
  if (is_field(object)) plain = share(PyTuple_GET_ITEM(take(PyObject_CallMethod(object, "__reduce__", "")).get(), 1));
  PyObject* value = nullptr;
  if (!plain && cpython::instance_attribute(object, value_name, &value) == cpython::Lookup::Found) plain = share(value);
  std::string bytes;
  return plain && encode(plain.get(), bytes) ? " " + hex(bytes) : "";
}

const char* of_part(ObjectRef::Part part) {
  switch (part) {
    case ObjectRef::Part::Itself:
      return "";
    case ObjectRef::Part::Type:
      return "the type of ";
    case ObjectRef::Part::Code:
      return "the code of ";
  }
  return "";
}

}  // namespace

const char* unportable_name(Unportable reason) {
  constexpr const char* kNames[] = {
#define UNPORTABLE(name, ...) #name,
#include "portable/unportable.def"
#undef UNPORTABLE
  };
  return kNames[static_cast<int>(reason)];
}

const char* because(Unportable reason) {
  constexpr const char* kReasons[] = {
#define UNPORTABLE(name, text) text,
#include "portable/unportable.def"
#undef UNPORTABLE
  };
  return kReasons[static_cast<int>(reason)];
}

bool ObjectRef::is_portable() const {
  return kind != Kind::ByIdentity &&
         std::all_of(items.begin(), items.end(), [](const ObjectRef& item) { return item.is_portable(); });
}

std::string ObjectRef::print(const source::Pool& pool) const {
  switch (kind) {
    case Kind::Constant:
      return "constant " + source::describe(decode(bytes).get());
    case Kind::Named:
      return path.print();
    case Kind::FromCall:
      return of_part(part) + pool.at(source)->print() + portable::print(path.steps, '.');
    case Kind::Bound:
      return items[0].print(pool) + "." + bytes;
    case Kind::Set:
      return "a set of " + source::describe(decode(bytes).get());
    case Kind::Tuple:
    case Kind::FrozenSet: {
      std::string text = "(";
      for (const ObjectRef& item : items) text += (text.size() > 1 ? ", " : "") + item.print(pool);
      return text + ")";
    }
    case Kind::ByIdentity:
      return std::string("by identity, not portable: ") + because(reason);
  }
  return "";
}

Owned<> made_set(const ObjectRef& ref) {
  const Owned<> members = decode(ref.bytes);
  return take(ref.digest == "set" ? PySet_New(members.get()) : PyFrozenSet_New(members.get()));
}

std::string digest_of_object(PyObject* object) {
  if (PyCode_Check(object)) return of_code(object);
  if (PyFunction_Check(object)) return of_code(cpython::as_function(object)->func_code);
  if (PyType_Check(object)) return layout_of(reinterpret_cast<PyTypeObject*>(object));
  if (PyModule_Check(object)) return "module";
  if (std::string bytes; encode(object, bytes)) return "constant " + hex(bytes);
  if (PyTuple_CheckExact(object)) return of_items(object);
  if (PyCFunction_Check(object)) {
    const char* name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
    return std::string("C function ") + name + " " + file_of_module(module_of(object));
  }
  return "object of " + name_of_type(Py_TYPE(object)) + payload_of(object);
}

bool is_opaque(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_field(object)) return false;  // its type has been a heap type since 3.12
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) return !PyType_Check(object) && !cpython::builtin_base(type);
  if (PyFunction_Check(object) || PyType_Check(object) || PyModule_Check(object) || PyCode_Check(object)) return false;
  if (PyCFunction_Check(object) || PyTuple_CheckExact(object) || PyFrozenSet_CheckExact(object)) return false;
  PyTypeObject* const transparent[] = {&PyMethodDescr_Type, &PyWrapperDescr_Type, &PyClassMethodDescr_Type,
                                       &PyGetSetDescr_Type, &PyMemberDescr_Type,  &PyStaticMethod_Type,
                                       &PyClassMethod_Type, &PyProperty_Type,     &PyContextVar_Type};
  if (std::ranges::find(transparent, type) != std::end(transparent)) return false;
  const std::string_view name = type->tp_name;
  return name != "numpy.ufunc" && name != "numpy._ArrayFunctionDispatcher";
}

}  // namespace gramme::portable
