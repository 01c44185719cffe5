// Access to a call's arguments by the parameter numbers of a rule.
#include "meta/operands.h"

#include <torch/csrc/Dtype.h>

#include <algorithm>

namespace gramme::meta {

Operands::Operands(const Call& call, const Signature& signature, size_t results, Decisions& decisions)
    : decide(decisions), arguments_(signature.names.size()), expected_(results) {
  for (uint32_t i = 0; i < call.arg_count; ++i) {
    if (i >= signature.rest_from) {
      rest_from_ = signature.rest_from;
      rest_.push_back(&call.args[i]);
    } else if (i >= signature.positional) {
      throw NoRule();
    } else {
      arguments_[i] = &call.args[i];
    }
  }
  for (uint32_t i = 0; i < call.keyword_count; ++i) {
    auto found = std::find(signature.names.begin(), signature.names.end(), call.keyword_names[i]);
    if (found == signature.names.end()) throw NoRule();
    arguments_[static_cast<size_t>(found - signature.names.begin())] = &call.keyword_args[i];
  }
}

bool Operands::is_absent(size_t i) const {
  if (i == rest_from_) return false;
  return !at(i) || (at(i)->kind == Argument::Constant && at(i)->object == Py_None);
}

const Record& Operands::record(size_t i) const {
  if (!is_tensor(i)) throw NoRule();
  return *at(i)->record;
}

std::vector<Geometry> Operands::tensors(size_t i) const {
  const Argument* list = at(i);
  if (!list || (list->kind != Argument::Tuple && list->kind != Argument::List)) throw NoRule();
  std::vector<Geometry> found;
  for (uint32_t k = 0; k < list->count; ++k) {
    if (list->items[k].kind != Argument::Tensor) throw NoRule();
    found.emplace_back(*list->items[k].record);
  }
  return found;
}

std::vector<Geometry> Operands::all_tensors(bool& mixed) const {
  std::vector<Geometry> found;
  mixed = false;
  for (const Argument* argument : arguments_) {
    if (!argument) continue;
    if (argument->kind == Argument::Tensor)
      found.emplace_back(*argument->record);
    else if (argument->kind == Argument::Number || argument->kind == Argument::Constant)
      mixed |= argument->object != Py_None && !PyUnicode_Check(argument->object) && !THPDtype_Check(argument->object);
    else
      throw NoRule();
    if (argument->expr) throw NoRule();
  }
  return found;
}

Expr Operands::integer_of(PyObject* object) {
  if (!object || !PyLong_CheckExact(object)) throw NoRule();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow || std::abs(value) > int64_t{1} << 48) throw NoRule();
  return number(value);
}

Expr Operands::integer_of(const Argument* argument) const {
  if (!argument) throw NoRule();
  if (argument->kind == Argument::Number && argument->expr && argument->expr->type == shape::Type::Int) {
    read_.insert(argument);
    return argument->expr;
  }
  if (argument->kind != Argument::Constant) throw NoRule();
  return integer_of(argument->object);
}

int64_t Operands::fixed(size_t i) const {
  const Expr e = integer(i);
  if (!is_constant(e)) throw NoRule();
  return e->constant;
}

bool Operands::flag(size_t i) const {
  if (is_absent(i)) return false;
  if (at(i)->kind != Argument::Constant || !PyBool_Check(at(i)->object)) throw NoRule();
  return at(i)->object == Py_True;
}

Extents Operands::integers(size_t i) const {
  Extents found;
  if (i == rest_from_ && rest_.size() > 1) {
    for (const Argument* argument : rest_) found.push_back(integer_of(argument));
    return found;
  }
  const Argument* list = i == rest_from_ ? rest_[0] : at(i);
  if (!list) throw NoRule();
  if (list->kind == Argument::Tuple || list->kind == Argument::List) {
    for (uint32_t k = 0; k < list->count; ++k) found.push_back(integer_of(&list->items[k]));
  } else if (list->kind == Argument::Constant && list->object && PyTuple_Check(list->object)) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list->object); ++k)
      found.push_back(integer_of(PyTuple_GET_ITEM(list->object, k)));
  } else {
    found.push_back(integer_of(list));
  }
  return found;
}

std::vector<int64_t> Operands::fixed_integers(size_t i) const {
  std::vector<int64_t> found;
  for (Expr e : integers(i)) {
    if (!is_constant(e)) throw NoRule();
    found.push_back(e->constant);
  }
  return found;
}

size_t Operands::wrapped(int64_t dimension, size_t among) {
  const auto count = static_cast<int64_t>(among);
  if (dimension < 0) dimension += count;
  if (dimension < 0 || dimension >= count) throw NoRule();
  return static_cast<size_t>(dimension);
}

}  // namespace gramme::meta
