// The modes of a scope: the thread is really in them during the capture, and the segment must leave those it enters.
#include "trace/scope.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "meta/kernels.h"

namespace gramme::trace {

namespace {

/// The annotations of torch.fx.traceback.annotate around the capture; null if there are none.
PyObject* annotations_of(Capture& capture) {
  PyObject* const names =
      once([] { return share(PyModule_GetDict(take(import_module("torch.fx.traceback")).get())).release(); });
  static PyObject* const current = intern("current_meta");
  static PyObject* const custom = intern("custom");
  PyObject* all = PyDict_GetItemWithError(names, current);
  PyObject* said = all && PyDict_CheckExact(all) ? PyDict_GetItemWithError(all, custom) : nullptr;
  return said && PyDict_CheckExact(said) ? capture.keep(take(PyDict_Copy(said))) : nullptr;
}

}  // namespace

Scope::Scope(Capture& capture)
    : capture_(capture),
      root_(capture.arena),
      state_(aten::GlobalState::read()),
      grad_at_start_(aten::grad_enabled()),
      history_(capture.shapes.assumptions),
      handlers_off_(!state_.asks_classes()) {
  meta::note_python_kernels();
  root_.custom = annotations_of(capture);
}

void Scope::put_back() {
  for (size_t i = undo_.size(); i-- > 0;) undo_[i]();
  undo_.clear();
  if (aten::grad_enabled() != grad_at_start_) aten::set_grad_enabled(grad_at_start_);
}

size_t Scope::enter_mode() {
  const size_t step = capture_.steps() - 1;
  entered_modes_.insert(step);
  return step;
}

void Scope::enter_level(meta::Level level, const graph::Node* node) {
  if (has_classes_) cannot(Reason::TensorSubclass, "beside a transform of torch.func");
  if (levels_.empty()) history_.begin(node, node->call, node->record);
  levels_.push_back(level);
  level_steps_.push_back(capture_.steps() - 1);
}

void Scope::leave_level() {
  levels_.pop_back();
  level_steps_.pop_back();
}

FunctionMode Scope::pop_function_mode() {
  FunctionMode left = function_modes_.back();
  function_modes_.pop_back();
  return left;
}

size_t Scope::first_open_mode() const {
  const size_t mode = entered_modes_.empty() ? SIZE_MAX : *entered_modes_.begin();
  return level_steps_.empty() ? mode : std::min(mode, level_steps_.front());
}

}  // namespace gramme::trace
