// Looks objects up by module and qualified name instead of tracking lifetimes.
#include "portable/lasting.h"

#include <algorithm>
#include <unordered_set>

#include "cpython/objects.h"
#include "portable/path.h"
#include "portable/raw.h"
#include "portable/visit.h"
#include "source/constant.h"
#include "source/leaf_types.h"

namespace gramme::portable {
namespace {

constexpr int kDeepest = 4;

/// True if its module holds the object under this dotted name.
bool is_named(PyObject* object, const std::string& names) {
  Path path{module_of(object), {}};
  if (!module_named(path.module)) return false;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find('.', begin), names.size());
    path.steps.push_back({StepKind::Attr, names.substr(begin, end - begin)});
    begin = end + 1;
  }
  if (resolve(path).get() == object) return true;
  path.steps.push_back({StepKind::Function});  // e.g. of a static method
  return resolve(path).get() == object;
}

bool lasts(PyObject* object, int depth);

bool all_last(PyObject* tuple, int depth) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    if (!lasts(PyTuple_GET_ITEM(tuple, i), depth)) return false;
  return true;
}

bool lasts(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
  auto* object = reinterpret_cast<PyObject*>(type);
  PyObject* module = module_named(module_of(object));
  return (module && Py_IS_TYPE(module, type)) ||  // the class of a module object in sys.modules
         is_named(object, text_or_empty(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname));
}

/// True for a function of a module, or a wrapper of one that holds no other objects of the program.
bool lasts(PyFunctionObject* function, int depth) {
  if (is_named(reinterpret_cast<PyObject*>(function), text_or_empty(function->func_qualname))) return true;
  if (!module_named(module_of(reinterpret_cast<PyObject*>(function)))) return false;
  if (function->func_dict && PyDict_GET_SIZE(function->func_dict)) return false;
  if (function->func_defaults && !all_last(function->func_defaults, depth + 1)) return false;
  if (function->func_kwdefaults && PyDict_GET_SIZE(function->func_kwdefaults)) return false;
  for (Py_ssize_t i = 0; function->func_closure && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    PyObject* content = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
    if (content && !lasts(content, depth + 1)) return false;
  }
  return true;
}

bool is_descriptor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type ||
         type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type;
}

bool lasts(PyObject* object, int depth) {
  if (source::is_leaf(object) || PyCode_Check(object) || PyBytes_CheckExact(object)) return true;
  if (depth > kDeepest) return false;
  if (PyTuple_CheckExact(object)) return all_last(object, depth + 1);
  if (PyAnySet_CheckExact(object)) return all_last(take(PySequence_Tuple(object)).get(), depth + 1);
  if (PyType_Check(object)) return lasts(reinterpret_cast<PyTypeObject*>(object));
  if (PyFunction_Check(object)) return lasts(cpython::as_function(object), depth);
  if (Py_IS_TYPE(object, &PyStaticMethod_Type) || Py_IS_TYPE(object, &PyClassMethod_Type))
    return lasts(child(object, {StepKind::Function}).get(), depth + 1);
  if (PyModule_Check(object)) return module_named(module_of(object)) == object;
  if (is_descriptor(object)) return lasts(PyDescr_TYPE(object));
  if (PyCFunction_Check(object)) {
    PyObject* self = PyCFunction_GET_SELF(object);
    return !self || is_named(object, reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name) ||
           lasts(self, depth + 1);
  }
  return !PyObject_IS_GC(object) && !PyObject_CheckBuffer(object) && lasts(Py_TYPE(object));
}

}  // namespace

bool lasts(PyObject* object) { return lasts(object, 0); }

bool holds_only_lasting(const plan::Segment& segment) {
  bool all = true;
  std::unordered_set<PyObject*> seen;
  visit(segment, [&](Place place, const auto& owned) {
    auto* object = reinterpret_cast<PyObject*>(owned.get());
    if (all && place != Place::Compiled && seen.insert(object).second) all = lasts(object);
  });
  return all;
}

}  // namespace gramme::portable
