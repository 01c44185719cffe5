// How a scope begins, and the transforms that its graph enters.
#include "trace/scope.h"

#include "base/imported.h"
#include "base/once.h"
#include "meta/kernels.h"

namespace gramme::trace {

namespace {

/// The annotations of torch.fx.traceback.annotate around the capture; null if there are none.
PyObject* annotations_of(Values& values) {
  PyObject* const names =
      once([] { return share(PyModule_GetDict(take(import_module("torch.fx.traceback")).get())).release(); });
  static PyObject* const current = intern("current_meta");
  static PyObject* const custom = intern("custom");
  PyObject* all = PyDict_GetItemWithError(names, current);
  PyObject* said = all && PyDict_CheckExact(all) ? PyDict_GetItemWithError(all, custom) : nullptr;
  return said && PyDict_CheckExact(said) ? values.keep(take(PyDict_Copy(said))) : nullptr;
}

}  // namespace

Scope::Scope(Capture& capture)
    : capture_(capture),
      root_(capture.arena),
      data_(capture.shapes.assumptions, capture.data),
      history_(capture.shapes.assumptions) {
  meta::note_python_kernels();
  root_.custom = annotations_of(capture);
}

void Scope::enter_level(meta::Level level, const graph::Node* node) {
  if (has_classes_) cannot(Reason::TensorSubclass, "beside a transform of torch.func");
  if (!modes_.in_level()) history_.begin(node, node->call, node->record);
  modes_.enter_level(level, capture_.steps() - 1);
}

}  // namespace gramme::trace
