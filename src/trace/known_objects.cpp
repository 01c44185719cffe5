// Which way a dict is tracked.
#include "trace/known_objects.h"

#include "cpython/objects.h"

namespace gramme::trace {

namespace {
[[noreturn]] void cannot_hold_twice() {
  cannot(Reason::AttributeUnknown, "a dict of attributes or globals that is reached on its own");
}
}  // namespace

value::Namespace* KnownObjects::namespace_of(PyObject* dict, const Source* source) {
  value::Namespace*& names = namespaces_[dict];
  if (names) return names;
  if (objects_.contains(dict)) cannot(Reason::AttributeUnknown, "globals that are reached as a dict");
  names = values_.make<value::Namespace>(source, values_.keep(share(dict)));
  return names;
}

void KnownObjects::note_dict_of(PyObject* object) {
  PyObject** dict = cpython::instance_dict_address(object);
  if (!dict || !*dict) return;
  if (objects_.contains(*dict)) cannot_hold_twice();
  dicts_.insert(*dict);
}

void KnownObjects::refuse_as_dict(PyObject* dict) const {
  if (dicts_.contains(dict) || namespaces_.contains(dict)) cannot_hold_twice();
}

}  // namespace gramme::trace
