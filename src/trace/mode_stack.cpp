// Modes are compared by the thread's state, and put back one by one.
#include "trace/mode_stack.h"

#include <algorithm>
#include <utility>

namespace gramme::trace {

ModeStack::ModeStack()
    : state_(aten::GlobalState::read()), grad_at_start_(aten::grad_enabled()), handlers_off_(!state_.asks_classes()) {}

void ModeStack::put_back() {
  for (size_t i = undo_.size(); i-- > 0;) undo_[i]();
  undo_.clear();
  if (aten::grad_enabled() != grad_at_start_) aten::set_grad_enabled(grad_at_start_);
}

size_t ModeStack::enter(size_t step) {
  entered_.insert(step);
  return step;
}

void ModeStack::leave(size_t step) { entered_.erase(entered_.find(step)); }

void ModeStack::enter_level(meta::Level level, size_t step) {
  levels_.push_back(level);
  level_steps_.push_back(step);
}

void ModeStack::leave_level() {
  levels_.pop_back();
  level_steps_.pop_back();
}

size_t ModeStack::first_open() const {
  const size_t mode = entered_.empty() ? SIZE_MAX : *entered_.begin();
  return level_steps_.empty() ? mode : std::min(mode, level_steps_.front());
}

FunctionMode ModeStack::pop_function_mode() {
  const FunctionMode left = function_modes_.back();
  function_modes_.pop_back();
  return left;
}

void ModeStack::note_default_dtype(PyObject* before, PyObject* now) {
  if (!first_dtype_) first_dtype_ = share(before);
  dtype_ = share(now);
}

ModeStack::BodyState ModeStack::now() const {
  return {aten::GlobalState::read(), levels_.size(), function_modes_.size(), handlers_off_};
}

void ModeStack::enter_body() { bodies_.push_back(now()); }

bool ModeStack::leave_body() {
  const BodyState began = bodies_.back();
  abandon_body();
  return now() == began;
}

}  // namespace gramme::trace
