// Follows PyTorch's own walk through functions, cells and containers, noting each tensor on the way.
#include "trace/shown.h"

#include <algorithm>

#include "aten/classes.h"
#include "source/constant.h"

namespace gramme::trace {

using namespace value;

class Shown::Question {
 public:
  explicit Question(Shown& shown) : shown_(shown) {}

  bool is_constant(Value* value) {
    if (++looked_at_ > kMost) return false;
    if (auto* lazy = as<Lazy>(value)) return lazy->target ? is_constant(lazy->target) : is_constant(lazy->object);
    if (auto* tuple = as<Tuple>(value)) return are_constants(tuple->items);
    if (auto* list = as<List>(value)) return !list->existing() && are_constants(list->own_items);
    if (auto* dict = as<Dict>(value)) return !dict->existing() && is_constant(dict->entries);
    if (auto* function = as<Function>(value)) return is_constant(function);
    return value->kind == Kind::Constant || value->kind == Kind::Builtin || value->kind == Kind::Class ||
           value->kind == Kind::Module;
  }

 private:
  bool is_constant(PyObject* object) {
    if (aten::is_tensor(object)) shown_.add(object);
    return source::is_constant(object) || PyFunction_Check(object) || PyCFunction_Check(object) ||
           PyType_Check(object) || PyModule_Check(object);
  }

  bool are_constants(const std::vector<Value*>& values) {
    return std::ranges::all_of(values, [&](Value* value) { return is_constant(value); });
  }

  bool is_constant(Table& table) {
    for (size_t i = 0; Table::Entry* entry = table.next(i);)
      if (!is_constant(entry->key) || !is_constant(entry->value)) return false;
    return true;
  }

  bool is_constant(Cell* cell) {
    if (cell->read) return cell->content && is_constant(cell->content);
    PyObject* content = PyCell_GET(cell->object);
    return content && is_constant(content);
  }

  bool is_constant(Function* function) {
    if (function->existing()) return true;
    for (Value* cell : function->closure)
      if (!is_constant(static_cast<Cell*>(cell))) return false;
    for (Value* defaults : {function->defaults, function->kwdefaults})
      if (defaults && !is_constant(defaults)) return false;
    return true;
  }

  static constexpr int kMost = 256;  // ends the walk through a container that contains itself
  Shown& shown_;
  int looked_at_ = 0;
};

void Shown::look_at(const Value* value) {
  if (value->kind == Kind::Lazy && aten::is_tensor(value->object)) add(value->object);
}

bool Shown::look_for_constant(Value* value) { return Question(*this).is_constant(value); }

Shown::Place Shown::place(const PyObject* tensor, size_t made_before) const {
  const Place own(made_before, true, 0);
  const auto shown = places_.find(tensor);
  return shown == places_.end() ? own : std::min(own, shown->second);
}

}  // namespace gramme::trace
