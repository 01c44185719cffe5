// The checks behind Confined: which changes and reads a confined body may make, and at its end whether everything that
// it changed was put back.
#include "trace/confined.h"

#include <algorithm>

#include "meta/origin.h"
#include "trace/literals.h"
#include "trace/read_later.h"
#include "trace/values.h"
#include "trace/variable.h"

namespace gramme::trace {

using namespace value;

Confined::Confined(Confinement& confinement, Inliner* inliner)
    : confinement_(confinement), values_(confinement.values_), inliner_(inliner), around_(confinement.innermost_) {
  confinement.innermost_ = this;
  values_.collect_into(&made_);
}

Confined::~Confined() {
  confinement_.innermost_ = around_;
  values_.collect_into(around_ ? &around_->made_ : nullptr);
  if (around_) around_->made_.merge(made_);
}

bool Confined::may_change(const Value* target) const { return !target->existing() && made_.contains(target); }

void Confined::change(Value* target) {
  if (!may_change(target)) cannot(Reason::EffectInBody, named(inliner_, target));
}

void Confined::change(Value* target, PyObject* attribute, std::function<Value*()> read) {
  if (may_change(target)) return;
  auto known = [&](const Touched& touched) { return touched.target == target && touched.attribute == attribute; };
  if (std::any_of(touched_.begin(), touched_.end(), known)) return;
  Value* before = read();
  touched_.push_back({target, attribute, named(inliner_, target, attribute), std::move(read), before});
}

void Confined::write(const Tensor* tensor) {
  for (; tensor; tensor = tensor->base) {
    bool own = false;
    for (const Confined* part = this; part; part = part->around_) {
      own |= part->may_change(tensor);
      if (!own && !part->writes_) cannot(Reason::EffectInBody, "a write to " + named(inliner_, tensor));
    }
  }
}

namespace {

bool is_operator(const Value* value) { return value->object && meta::is_operator(value->object); }

bool is_function_or_class(PyObject* object) {
  return PyFunction_Check(object) || PyCFunction_Check(object) || PyType_Check(object);
}

/// True for a dict of functions or classes from outside that the segment leaves as it is. Backward raises if its
/// entries changed (`watching` in _conventions.py).
bool is_registry(const Value* value) {
  if (value->kind != Kind::Dict || !value->existing() || value->written || !PyDict_CheckExact(value->object))
    return false;
  PyObject *key, *item;
  for (Py_ssize_t at = 0; PyDict_Next(value->object, &at, &key, &item);)
    if (!is_function_or_class(item)) return false;
  return true;
}

}  // namespace

bool Confined::lasts(Value* value) const {
  static constexpr Kind kLasting[] = {Kind::Constant, Kind::Number, Kind::Tensor, Kind::Class,
                                      Kind::Function, Kind::Method, Kind::Module, Kind::Builtin};
  value = values_.see(value);
  if (auto* tuple = as<Tuple>(value))
    return std::ranges::all_of(tuple->items, [&](Value* item) { return lasts(item); });
  if (std::ranges::find(kLasting, value->kind) != std::end(kLasting) || is_operator(value)) return true;
  return is_own(value);
}

bool Confined::is_own(const Value* value) const {
  return is_literal(value) || (!value->existing() && (made_.contains(value) || kept_->contains(value)));
}

void Confined::refuse_passing(const Value* owner, Value* found, Value* holder, PyObject* name) const {
  if (!found) return;
  const bool in_module = owner && owner->kind == Kind::Module;
  const bool object = owner && !in_module && owner->kind != Kind::Function && !is_operator(owner);
  if (object && !is_own(owner))
    cannot(Reason::EffectInBody, named(inliner_, owner, name) + ", read by what runs later");
  static constexpr Kind kRebound[] = {Kind::Constant, Kind::Number, Kind::Tuple,
                                      Kind::Function, Kind::Class,  Kind::Builtin};
  const Kind kind = values_.see(found)->kind;
  const bool registry = holder && is_registry(values_.see(found));
  // A hook of a compiled graph takes the tensor that was there, which nobody else keeps.
  const bool taken = kind == Kind::Tensor && confinement_.of_gradients;
  const bool rebound = taken || registry || std::ranges::find(kRebound, kind) != std::end(kRebound);
  if (rebound && holder && !is_own(holder) && !is_operator(holder)) rebindable_(holder, name, values_.see(found));
  if (!(in_module && is_of_library(owner)) && !registry && !lasts(found))
    cannot(Reason::EffectInBody, named(inliner_, values_.see(found)) + ", from outside, read by what runs later");
}

void Confined::check() {
  for (const Touched& touched : touched_) {
    Value *now = touched.read(), *before = touched.before;
    if (now) now = values_.see(now);
    if (before) before = values_.see(before);
    const bool constants = now && before && now->kind == Kind::Constant && before->kind == Kind::Constant;
    const bool equal = now == before || (constants && now->object == before->object);
    if (!equal) cannot(Reason::EffectInBody, touched.what);
  }
}

}  // namespace gramme::trace
