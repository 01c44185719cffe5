// Finds out whether an object's death runs code of the program, without counting references that the capture itself
// holds.
#include "trace/dying.h"

namespace gramme::trace {

bool runs_code(const Values& values, PyObject* object) {
  return cpython::runs_code(object, [&](PyObject* held) { return values.references_to(held); });
}

void refuse_death(const Values& values, PyObject* object) {
  if (object && runs_code(values, object))
    cannot(Reason::CallSkipped, std::string("dropping a ") + Py_TYPE(object)->tp_name + ", which has a finalizer");
}

}  // namespace gramme::trace
