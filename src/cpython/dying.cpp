// Walks the objects that die with an object with tp_traverse, and looks for finalizers.
#include "cpython/dying.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "torch/names.h"

namespace gramme::cpython {

namespace {
/// True for a callback of the tables in which PyTorch's front end keeps modules: it drops the entry, which no program
/// sees.
bool is_of_front_end(PyObject* callback) {
  if (PyMethod_Check(callback)) callback = PyMethod_GET_FUNCTION(callback);
  PyObject* module = PyFunction_Check(callback) ? reinterpret_cast<PyFunctionObject*>(callback)->func_module : nullptr;
  return module && PyUnicode_Check(module) && of_torch::is_within(module, of_torch::Dynamo);
}

}  // namespace

bool has_callback(PyObject* object) {
  bool plain = PyType_Check(object) || PyFunction_Check(object) || PyModule_Check(object);
  if (plain || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) || !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return false;
  auto* reference = *reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(object));
  while (reference && (!reference->wr_callback || is_of_front_end(reference->wr_callback)))
    reference = reference->wr_next;
  return reference != nullptr;
}

namespace {
Py_ssize_t references_of(const Looking& looking, PyObject* object) { return looking ? looking(object) : 0; }

/// True if the only references are one of the program, those of callers' frames for an exception, and the asking
/// code's.
bool dies_with_one(const Looking& looking, PyObject* object) {
  constexpr int kOfException = 3;  // the stack, what is being handled, a variable
  const int places = PyExceptionInstance_Check(object) ? kOfException : 1;
  return Py_REFCNT(object) <= places + references_of(looking, object);
}

/// True for objects that are not searched: they hold too much, or survive in any case.
bool is_passed_by(PyObject* object) {
  return PyType_Check(object) || PyModule_Check(object) || PyCode_Check(object) || PyUnicode_Check(object);
}

/// The objects that die with an object, at any depth: nothing else holds them.
class Dying {
 public:
  Dying(PyObject* object, const Looking& looking) : object_(object), looking_(looking) {}
  bool any_runs_code() {
    for (at_ = 0; at_ <= held_.size() && at_ < kMost; ++at_)
      if (look_into(object_at(at_))) return true;
    return false;
  }

 private:
  static constexpr size_t kMost = 1000;
  static constexpr Py_ssize_t kFew = 8;  // objects with more references survive

  struct Held {
    PyObject* object;
    size_t holder;
  };

  /// Index 0 is the object itself.
  PyObject* object_at(size_t at) const { return at == 0 ? object_ : held_[at - 1].object; }

  bool look_into(PyObject* object) {
    if (PyFunction_Check(object)) {  // its globals survive
      auto* function = reinterpret_cast<PyFunctionObject*>(object);
      return visit(function->func_closure, this) || visit(function->func_defaults, this);
    }
    PyTypeObject* type = Py_TYPE(object);
    return PyObject_IS_GC(object) && type->tp_traverse && type->tp_traverse(object, visit, this) != 0;
  }
  /// True if the object being searched dies, and so do all on the way to it.
  bool all_die() const {
    for (size_t at = at_;; at = held_[at - 1].holder) {
      if (!dies_with_one(looking_, object_at(at))) return false;
      if (at == 0) return true;
    }
  }
  static int visit(PyObject* held, void* self) {
    auto& dying = *static_cast<Dying*>(self);
    if (!held || is_passed_by(held)) return 0;
    if (has_finalizer(held)) return dying.all_die();
    if (PyObject_IS_GC(held) && dying.may_die(held)) dying.held_.push_back({held, dying.at_});
    return 0;
  }
  /// `looking_` is slow, so it is called only for objects on the way to a finalizer, which are few.
  bool may_die(PyObject* held) const { return looking_ ? Py_REFCNT(held) <= kFew : dies_with_one(looking_, held); }

  PyObject* const object_;
  const Looking& looking_;
  std::vector<Held> held_;
  size_t at_ = 0;
};

}  // namespace

bool runs_code(PyObject* object, const Looking& looking) {
  auto runs = [&](PyObject* held) {
    return has_finalizer(held) || (has_callback(held) && Py_REFCNT(held) <= 1 + references_of(looking, held));
  };
  return any_held(object, runs) || Dying(object, looking).any_runs_code();
}

namespace {
/// For arguments of a call, most of which have other references.
bool all_items_die_quietly(PyObject* tuple) {
  PyObject* const* items = reinterpret_cast<PyTupleObject*>(tuple)->ob_item;
  return std::all_of(items, items + PyTuple_GET_SIZE(tuple), dies_quietly);
}
}  // namespace

bool all_of_it_dies_quietly(PyObject* object) {
  if (PyCell_Check(object)) return dies_quietly(PyCell_GET(object));
  if (PyTuple_CheckExact(object)) return all_items_die_quietly(object);
  if (PyDict_CheckExact(object) && PyDict_GET_SIZE(object) == 0) return true;
  const bool is_alone = !PyObject_IS_GC(object) && !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
  return is_alone || !runs_code(object, {});
}

}  // namespace gramme::cpython
