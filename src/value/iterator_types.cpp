// Obtains the types by evaluating each row's example expression once.
#include "value/iterator_types.h"

#include <memory>

#include "base/imported.h"
#include "base/once.h"

namespace gramme::value {

namespace {

Owned<> names_for_examples() {
  Owned<> names = take(PyDict_Copy(PyEval_GetBuiltins()));
  for (const char* module : {"collections", "itertools"})
    if (PyDict_SetItemString(names.get(), module, take(import_module(module)).get()) < 0) throw PythonError();
  return names;
}

const IteratorTypes* make_types() {
  static constexpr const char* kExamples[] = {
#define ITERATOR_TYPE(name, example) example,
#include "value/iterator_types.def"
#undef ITERATOR_TYPE
  };
  Owned<> names = names_for_examples();
  auto types = std::make_unique<IteratorTypes>();
  for (size_t i = 0; i < types->size(); ++i)
    (*types)[i] = Py_TYPE(take(PyRun_String(kExamples[i], Py_eval_input, names.get(), names.get())).get());
  return types.release();
}

}  // namespace

const IteratorTypes& iterator_types() {
  return *once([] { return make_types(); });
}

PyTypeObject* type_of(IteratorType type) { return iterator_types()[static_cast<size_t>(type)]; }

PyTypeObject* sequence_iterator_type(const Value* sequence) {
  if (sequence->kind == Kind::List) return type_of(IteratorType::List);
  if (sequence->kind == Kind::Tuple) return type_of(IteratorType::Tuple);
  if (sequence->kind == Kind::Deque) return type_of(IteratorType::Deque);
  if (sequence->kind != Kind::Constant) return type_of(IteratorType::Sequence);
  if (PyBytes_Check(sequence->object)) return type_of(IteratorType::Bytes);
  return type_of(PyUnicode_IS_ASCII(sequence->object) ? IteratorType::Ascii : IteratorType::Text);
}

}  // namespace gramme::value
