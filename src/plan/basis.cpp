// The hidden Python type gramme._C.Guards, which owns a description and its program and shows the collector their
// references.
#include "plan/basis.h"

#include <new>

namespace gramme::plan {
namespace {

Basis* as_basis(PyObject* object) { return reinterpret_cast<Basis*>(object); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  const GuardDescription& guards = as_basis(self)->description;
  Py_VISIT(as_basis(self)->kept.get());
  for (const guards::Fact& fact : guards.facts) Py_VISIT(fact.object.get());
  if (guards.pool.use_count() != 1) return 0;  // a shared pool would be visited twice
  for (size_t i = 0; i < guards.pool->size(); ++i) Py_VISIT(guards.pool->at(i)->key.get());
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  as_basis(self)->kept.~Owned<>();
  as_basis(self)->program.~Program();
  as_basis(self)->description.~GuardDescription();
  PyObject_GC_Del(self);
}

PyTypeObject make_type() {
  PyTypeObject type{PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "gramme._C.Guards";
  type.tp_basicsize = sizeof(Basis);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;  // entries break the cycles
  return type;
}

PyTypeObject* basis_type() {
  static PyTypeObject type = make_type();  // no Python: fields
  if (!(type.tp_flags & Py_TPFLAGS_READY)) check(PyType_Ready(&type));
  return &type;
}

}  // namespace

Owned<Basis> make_basis(GuardDescription description) {
  WithoutCollection no_finalizers;
  Basis* basis = PyObject_GC_New(Basis, basis_type());
  if (!basis) throw PythonError();
  new (&basis->description) GuardDescription(std::move(description));
  new (&basis->program) Program(basis->description);
  new (&basis->kept) Owned<>();
  PyObject_GC_Track(basis);
  return Owned<Basis>::steal(basis);
}

GuardDescription take_description(Owned<Basis> basis) {
  return Py_REFCNT(basis.get()) == 1 ? std::move(basis->description) : GuardDescription(basis->description);
}

}  // namespace gramme::plan
