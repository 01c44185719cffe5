// Makes the value of a real object: decides its kind, and adds the guards of having looked.
#include "trace/realize.h"

#include <cstring>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "guards/marks.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "torch/names.h"
#include "trace/capture.h"
#include "trace/getters.h"
#include "trace/partials.h"

namespace gramme::trace {

using namespace value;
using source::Kind::Attr;
using SK = source::Kind;

/// The type of this name; null if there is none.
PyTypeObject* type_named(const char* module, const char* name) {
  Owned<> imported = Owned<>::steal(import_module(module));
  if (!imported) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* type = PyObject_GetAttrString(imported.get(), name);
  if (!type) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(type);  // held for the life of the process
}

const KnownTypes& known_types() {
  const KnownTypes* const types = once([] { return new KnownTypes; });
  return *types;
}

namespace {

bool has_open_places(PyObject* arguments) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
    if (is_open_place(PyTuple_GET_ITEM(arguments, i))) return true;
  return false;
}

bool is_torch_constant(PyTypeObject* type) {
  const KnownTypes& known = known_types();
  return type == known.dtype || type == known.layout || type == known.memory_format || type == known.device;
}

/// True for types of NumPy's functions (ufuncs and the like), which are singletons without state of their own.
bool is_of_numpy(PyTypeObject* type) {
  return std::strcmp(type->tp_name, "numpy.ufunc") == 0 ||
         std::strcmp(type->tp_name, "numpy._ArrayFunctionDispatcher") == 0;
}

bool is_c_callable(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* const method_wrapper = once([] { return type_named("types", "MethodWrapperType"); });
  return PyCFunction_Check(object) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
         type == &PyClassMethodDescr_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
         type == method_wrapper || is_of_numpy(type);
}

/// An existing list iterator under fullgraph=True, with its position guarded. Where the graph may break, list iterators
/// are Live: in a loop the position differs at each turn.
Iterator* realize_list_iterator(Values& values, guards::FactList& facts, source::Pool& pool, PyObject* object,
                                const Source* source) {
  auto* result = values.make<Iterator>(source, object);
  result->sort = Iterator::Sequence;
  const Source* of = pool.child(source, SK::IteratorOf);
  PyObject* list = *cpython::list_iterator_list(object);
  result->done = !list;
  if (!list) {
    facts.add_absent(of);
    return result;
  }
  guards::Fact position{source, guards::Kind::Position, {}};
  position.number = result->index = *cpython::list_iterator_position(object);
  facts.add(std::move(position));
  result->parts = {values.see(values.wrap(list, of))};
  return result;
}

bool is_list_iterator(PyObject* object) {
  if (!Py_IS_TYPE(object, &PyListIter_Type)) return false;
  PyObject* list = *cpython::list_iterator_list(object);
  return !list || PyList_CheckExact(list);
}

}  // namespace

Value* Capture::realize(PyObject* object, const Source* source) {
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object)) return numbers.at(object, source, inliner);
  if (object == Py_None || PyBool_Check(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
      object == Py_Ellipsis || object == Py_NotImplemented || PyComplex_CheckExact(object) ||
      Py_TYPE(object) == &PyRange_Type || PyCode_Check(object)) {
    bool singleton = object == Py_NotImplemented || PyCode_Check(object);
    facts.add({source, singleton ? guards::Kind::Identity : guards::Kind::Constant, share(object)});
    if (object == Py_None) return none();
    if (PyBool_Check(object)) return boolean(object == Py_True);
    return make<Constant>(source, object);
  }
  if (source::is_leaf(object)) {
    facts.add({source, guards::Kind::Constant, share(object)});
    auto* result = make<Object>(pool->pinned(object), object);
    result->type = Py_TYPE(object);
    return result;
  }
  if (Value* found = objects.find(object)) {
    const Source* first = found->source;
    if (first && first != source) {
      bool pinned = first->kind == SK::Pinned;
      guards::Fact fact{source, pinned ? guards::Kind::Identity : guards::Kind::SameAs,
                        pinned ? share(object) : Owned<>()};
      fact.other = pinned ? nullptr : first;
      facts.add(std::move(fact));
    }
    return found;
  }
  Value* result = realize_object(object, source);
  objects.add(object, result);
  if (owns_dict(result->kind)) objects.note_dict_of(object);
  return result;
}

Value* Capture::realize_object(PyObject* object, const Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  const KnownTypes& types = known_types();
  if (PyFunction_Check(object)) return realize_function(object, source);
  if (PyType_Check(object)) {
    facts.add({source, guards::Kind::Identity, share(object)});
    return make<Class>(pool->pinned(object), object);
  }
  if (is_c_callable(object)) return realize_c_function(object, source);
  if (aten::is_tensor(object)) return realize_tensor(object, source);
  if (is_torch_constant(type)) {
    facts.add({source, type == types.device ? guards::Kind::Constant : guards::Kind::Identity, share(object)});
    return make<Constant>(source, object);
  }
  if (PyModule_Check(object)) {
    facts.add({source, guards::Kind::Identity, share(object)});
    auto* result = make<Module>(pool->pinned(object), object);
    PyObject* names = PyModule_GetDict(object);
    result->names = objects.namespace_of(names, pool->child(result->source, SK::InstanceDict));
    return result;
  }
  if (types.enum_meta && PyObject_TypeCheck(reinterpret_cast<PyObject*>(type), types.enum_meta)) {
    facts.add({source, guards::Kind::Identity, share(object)});
    auto* result = make<Object>(pool->pinned(object), object);
    result->type = type;
    if (PyLong_Check(object)) result->payload = constant(take(_PyLong_Copy(reinterpret_cast<PyLongObject*>(object))));
    if (PyUnicode_Check(object)) result->payload = constant(take(PyUnicode_FromObject(object)));
    return result;
  }
  facts.add_type(source, type);
  if (PyTuple_Check(object)) return realize_tuple(object, source);
  if (PyList_Check(object)) return realize_list(object, source);
  if (PyDict_Check(object)) return realize_dict(object, source);
  if (PyAnySet_Check(object)) return realize_set(object, source);
  if (PyObject_TypeCheck(object, types.deque)) return realize_deque(object, source);
  if (PyMethod_Check(object)) {
    auto* result = make<Method>(source, object);
    result->function = wrap(PyMethod_GET_FUNCTION(object), pool->child(source, SK::MethodFunc));
    result->self = wrap(PyMethod_GET_SELF(object), pool->child(source, SK::MethodSelf));
    return result;
  }
  if (PyCell_Check(object)) {
    auto* result = make<Cell>(source, object);
    result->read = false;
    return result;
  }
  if (type == types.partial) {
    auto* partial = cpython::as_partial(object);
    if (has_open_places(partial->args)) cannot(Reason::SourceUnknown, "a partial() with a Placeholder");
    auto* result = make<Partial>(source, object);
    result->function = wrap(partial->func, pool->child(source, SK::PartialFunc));
    auto* args = see_as<Tuple>(wrap(partial->args, pool->child(source, SK::PartialArgs)));
    if (args) result->args = args->items;
    return result;
  }
  if (PySlice_Check(object)) {
    if (!source::is_constant(object)) cannot(Reason::SourceUnknown, "a slice of objects");
    facts.add({source, guards::Kind::Constant, share(object)});
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    auto* result = make<Slice>(source, object);
    result->start = constant(slice->start);
    result->stop = constant(slice->stop);
    result->step = constant(slice->step);
    return result;
  }
  if (!policy.contract.breaks && is_list_iterator(object))
    return realize_list_iterator(*this, facts, *pool, object, source);
  if (policy.contract.breaks && policy.iterates && cpython::iterates(object) != cpython::Iterates::Unknown) {
    auto* result = make<Iterator>(source, object);
    result->sort = Iterator::Live;
    return result;
  }
  auto* result = make<Object>(source, object);
  result->type = type;
  PyTypeObject* const module = once([] { return type_named("torch.nn", "Module"); });
  if (policy.all_dynamic && PyType_IsSubtype(type, module)) numbers.note_module(source);
  return result;
}

/// Module-level functions are held by the segment. Closures, and functions that replaced one of the same code, are
/// guarded by code, defaults and the cells that are read.
Value* Capture::realize_function(PyObject* object, const Source* source) {
  auto* function = cpython::as_function(object);
  static PyObject* const inner = intern("<locals>");
  bool made_by_a_call = function->func_closure || PyUnicode_Contains(function->func_qualname, inner) > 0;
  const auto before = policy.held.find(source->path);
  const bool replaced = before != policy.held.end() && before->second.address != object &&
                        before->second.code.get() == function->func_code;
  const bool hook = source->kind == SK::ValueAt && is_of_hooks(source->base);  // with a new id it may be a new function
  if (source->kind != SK::Pinned && (made_by_a_call || replaced || hook)) {
    facts.add_type(source, &PyFunction_Type);
    return make<Function>(source, object);
  }
  facts.add({source, guards::Kind::Identity, share(object)});
  return make<Function>(pool->pinned(object), object);
}

namespace {
/// The method descriptor that a bound C function comes from; null if there is none.
PyObject* method_of(PyObject* self, PyObject* bound) {
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(bound)->m_ml;
  Owned<> name = take(PyUnicode_InternFromString(method->ml_name));
  PyObject* mro = Py_TYPE(self)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* found = PyDict_GetItem(type_dict(PyTuple_GET_ITEM(mro, i)), name.get());
    if (found && Py_IS_TYPE(found, &PyMethodDescr_Type) &&
        reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method)
      return found;
  }
  return nullptr;
}
}  // namespace

namespace {
/// The one object that stands for all equal getters.
PyObject* one_getter(PyObject* object) {
  if (!attribute_of_getter(object)) return object;
  PyObject* const known = once([] { return take(PyDict_New()).release(); });
  PyObject* one = PyDict_SetDefault(known, object, object);
  if (!one) throw PythonError();
  return one;
}
}  // namespace

Value* Capture::realize_c_function(PyObject* object, const Source* source) {
  if (PyObject* one = one_getter(object); one != object) {
    facts.add({source, guards::Kind::Identity, share(object)});
    return see(pinned(one));
  }
  PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
  // pybind11 keeps a record of its own where other functions have their module
  bool record = self && (PyCapsule_CheckExact(self) || strncmp(Py_TYPE(self)->tp_name, "pybind11", 8) == 0);
  if (!self || record || PyModule_Check(self) || PyType_Check(self) || source->kind == SK::Pinned) {
    facts.add({source, guards::Kind::Identity, share(object)});
    return make<Builtin>(pool->pinned(object), object);
  }
  PyObject* descriptor = method_of(self, object);
  if (!descriptor) cannot(Reason::SourceUnknown, "a C function bound to an object before the capture");
  const bool constant = source::is_constant(self);
  facts.add(
      {source, constant ? guards::Kind::Identity : guards::Kind::MethodDef, share(constant ? object : descriptor)});
  auto* method = make<BuiltinMethod>(constant ? pool->pinned(object) : source, descriptor);
  method->self = constant ? adopt(share(self)) : wrap(self, pool->child(source, SK::MethodSelf));
  return method;
}

namespace {
/// In captures that are not run, a fake tensor gets the description of the tensor it stands for.
const meta::Record* as_real(PyObject* object, const meta::Record* record) {
  PyObject* const fake = of_torch::if_loaded(of_torch::FakeTensor);
  if (!fake || !Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(fake))) return record;
  static PyObject* const mark = of_torch::attribute(of_torch::IsParam);
  PyObject* found = nullptr;
  const bool parameter =
      cpython::instance_attribute(object, mark, &found) == cpython::Lookup::Found && found == Py_True;
  PyTypeObject* const type = parameter ? once([] { return imported_type("torch.nn.parameter", "Parameter"); })
                                       : once([] { return imported_type("torch", "Tensor"); });
  return meta::with_type(record, type);
}
}  // namespace

namespace {
/// Ends the segment at a tensor whose sizes only its class knows, and gives up the capture for one with a tangent,
/// which no guard can describe.
[[noreturn]] void refuse_unguardable(PyObject* object, const aten::TensorSpec& spec) {
  PyTypeObject* const type = Py_TYPE(object);
  if (spec.tensor->opaque && !aten::is_exact_tensor_type(type))
    cannot(Reason::TensorSubclass, std::string(type->tp_name) + ", whose sizes only the class knows");
  throw Unguardable{};
}
}  // namespace

Value* Capture::realize_tensor(PyObject* object, const Source* source) {
  guards::Fact fact{source, guards::Kind::Tensor, {}};
  fact.spec = aten::tensor_spec(object);
  if (!aten::matches(*fact.spec, object))
    refuse_unguardable(object, *fact.spec);  // a tangent, sizes that only its class knows
  if (aten::reaches_past_storage(object)) cannot(Reason::OperatorFailed, "a tensor whose storage was made smaller");
  const bool leaf_view = aten::is_stale_view(object);
  if (leaf_view && aten::grad_enabled())
    cannot(Reason::MutationUnsupported, "a view whose base came to need a gradient");
  auto* result = make<Tensor>(source, object);
  result->record = meta::record_of(object, *fact.spec);
  if (!contract.runs) result->record = as_real(object, result->record);
  result->special_view = fact.spec->special_view;
  result->leaf_view = leaf_view;
  if (const std::vector<shape::Expr> sizes = numbers.sizes(object, result->record, source, position());
      !sizes.empty()) {
    result->record = shapes.describe(result->record, sizes, source, *pool);
    fact.spec = aten::with_varying(*fact.spec, varying(result->record->sizes), varying(result->record->strides));
  }
  facts.add(std::move(fact));
  if (policy.contract.symbols && may_vary(source) && !is_of_module(result->record, source))
    facts.add({source, guards::Kind::Marks, guards::marks_of(object)});
  if (guards::may_have_attributes(object) && guards::has_guarded_address(object))
    facts.add({source, guards::Kind::Identity, share(object)});
  found(result);
  return result;
}

}  // namespace gramme::trace
