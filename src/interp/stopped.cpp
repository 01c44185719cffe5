// Records where a capture stopped, for reports: the line, the call stack, the module.
#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "interp/interpreter.h"

namespace gramme::interp {

using namespace value;

namespace {
bool starts_with(PyObject* text, PyObject* prefix) {
  return PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

PyObject* path_of(const char* name) {
  return take(PyObject_CallMethod(take(import_module("sysconfig")).get(), "get_path", "s", name)).release();
}

/// The folder prefix of a package's file names.
PyObject* folder_of(const char* package) {
  Owned<> paths = take(PyObject_GetAttrString(take(import_module(package)).get(), "__path__"));
  return take(PyUnicode_FromFormat("%U/", take(PySequence_GetItem(paths.get(), 0)).get())).release();
}

/// Who owns a line: the program, an installed package, or a library (Python, PyTorch, gramme), which tells a reader
/// least.
enum class Owner { Program, Package, Library };
Owner owner_of(PyCodeObject* code) {
  PyObject* const gramme = once([] { return folder_of("gramme"); });
  PyObject* const torch = once([] { return folder_of("torch"); });
  PyObject* const stdlib = once([] { return path_of("stdlib"); });
  PyObject* const installed = once([] { return path_of("purelib"); });
  PyObject* file = code->co_filename;
  if (starts_with(file, gramme) || starts_with(file, torch)) return Owner::Library;
  if (starts_with(file, installed)) return Owner::Package;
  return starts_with(file, stdlib) ? Owner::Library : Owner::Program;
}
}  // namespace

/// Called for each frame that the refusal passes, innermost first; only the first call records anything.
void Interpreter::note_stop() {
  if (stopped_in_.code) return;
  Frame* frame = frame_;
  for (Frame* outer = frame_->back; outer; outer = outer->back)
    if (owner_of(outer->object()) < owner_of(frame->object())) frame = outer;
  stopped_in_ = {frame->object(),
                 frame->current ? frame->code->line(frame->current->at) : frame->object()->co_firstlineno};
  stopped_module_ = trace.scope().graph().module();
  for (frame = frame_; frame; frame = frame->back)
    if (frame->current)
      stopped_stack_.emplace_back(share(reinterpret_cast<PyObject*>(frame->object())), frame->current->at);
  std::reverse(stopped_stack_.begin(), stopped_stack_.end());
}

Interpreter::Place Interpreter::stopped_in() const {
  if (stopped_in_.code || !root_) return stopped_in_;
  return {root_->object(), root_->current ? root_->code->line(root_->current->at) : root_->object()->co_firstlineno};
}

int Interpreter::root_line() { return root_ && root_->current ? root_->code->line(root_->current->at) : 0; }

}  // namespace gramme::interp
