// Follows values to everything reachable from them, records names that are read, and checks at the end that nothing
// kept has changed or escaped.
#include "trace/read_later.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "meta/origin.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;

namespace {

/// The content of a tuple, or of a container or object that the capture made; empty for others.
std::vector<Value*> content_of(Trace& trace, Value* value) {
  std::vector<Value*> content;
  auto add = [&](Value* part) {
    if (part) content.push_back(trace.see(part));
  };
  auto add_all = [&](const Attributes& attributes) {
    for (const Attribute& attribute : attributes) add(attribute.value);
  };
  if (auto* tuple = as<Tuple>(value))
    for (Value* item : tuple->items) add(item);
  if (value->existing()) return content;
  if (auto* cell = as<Cell>(value)) add(cell->content);
  if (auto* list = as<List>(value))
    for (Value* item : list->items()) add(item);
  if (auto* dict = as<Dict>(value))
    dict->entries.each([&](Table::Entry& entry) {
      add(entry.key);
      add(entry.value);
    });
  if (auto* object = as<Object>(value)) {
    add_all(object->attributes);
    add_all(object->slots);
    add(object->payload);
  }
  return content;
}

/// True if reads of the value's items and attributes are known or reported (confined.h).
bool can_follow(const Value* value) {
  static constexpr Kind kFollowed[] = {Kind::Constant, Kind::Number,  Kind::Tensor,   Kind::Tuple, Kind::Class,
                                       Kind::Module,   Kind::Builtin, Kind::Function, Kind::Method};
  if (value->kind == Kind::List || value->kind == Kind::Dict) return !value->existing();
  if (value->kind == Kind::Object) return !value->existing() || !static_cast<const Object*>(value)->payload;
  return std::ranges::find(kFollowed, value->kind) != std::end(kFollowed);
}

}  // namespace

void ReadLater::keep(Trace& trace, Value* value) {
  Capture::Deeper deeper(trace);
  value = trace.see(value);
  if (!known_.insert(value).second) return;
  std::vector<Value*> content = content_of(trace, value);
  for (Value* part : content) {
    if (can_follow(part))
      keep(trace, part);
    else if (value->kind != Kind::Object)
      cannot(Reason::EffectInBody, std::string("a ") + kind_name(part->kind) + " that backward may look into");
  }
  if (!value->existing() && is_mutable(value->kind)) kept_.push_back({value, std::move(content), trace.steps()});
}

void ReadLater::keep_made(Trace& trace, Value* value) {
  Capture::Deeper deeper(trace);
  value = trace.see(value);
  if (value->existing() || value->kind == Kind::Constant || value->kind == Kind::Number) return;
  if (value->kind != Kind::Tuple && value->kind != Kind::List && value->kind != Kind::Dict)
    cannot(Reason::CallSkipped, std::string("a new ") + kind_name(value->kind) + " for one that is kept elsewhere");
  std::vector<Value*> content = content_of(trace, value);
  for (Value* part : content) keep_made(trace, part);
  if (is_mutable(value->kind)) kept_.push_back({value, std::move(content), trace.steps()});
}

bool is_of_library(const Value* holder) {
  static PyObject* const k_name = intern("__name__");
  static PyObject* const k_module = intern("__module__");
  PyObject* names = holder->object;
  PyObject* key = k_name;
  if (holder->kind == Kind::Module) names = PyModule_GetDict(holder->object);
  if (holder->kind == Kind::Function) names = holder->object ? PyFunction_GET_GLOBALS(holder->object) : nullptr;
  if (holder->kind == Kind::Class) {
    auto* type = reinterpret_cast<PyTypeObject*>(holder->object);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
    names = type_dict(type);
    key = k_module;
  }
  PyObject* const libraries = once([] { return imported("sys", "stdlib_module_names").release(); });
  const std::string_view package = meta::package_of(names, key);
  Owned<> name = take(PyUnicode_FromStringAndSize(package.data(), static_cast<Py_ssize_t>(package.size())));
  return package == "torch" || package == "gramme" || check(PySequence_Contains(libraries, name.get()));
}

namespace {

bool are_defaults(const Value* holder, PyObject* name) {
  static PyObject* const k_defaults = intern("__defaults__");
  static PyObject* const k_kwdefaults = intern("__kwdefaults__");
  return holder->kind == Kind::Function && (name == k_defaults || name == k_kwdefaults);
}

/// The object that a cell, or a name in a dict or object, holds now.
Owned<> held_now(PyObject* holder, PyObject* name) {
  if (!name) return Owned<>::share(PyCell_GET(holder));
  if (PyDict_Check(holder)) return Owned<>::share(PyDict_GetItemWithError(holder, name));
  return take(PyObject_GetAttr(holder, name));
}

}  // namespace

void ReadLater::note(Trace& trace, Value* holder, PyObject* name, Value* found) {
  if (holder->kind != Kind::Cell && is_of_library(holder)) return;
  if (!holder->existing() && holder->kind == Kind::Cell) return keep(trace, holder);
  if (are_defaults(holder, name)) return add(holder, name);
  const bool constant = found->kind == Kind::Constant || found->kind == Kind::Number || found->kind == Kind::Tuple;
  if (constant && trace.contract.breaks)
    cannot(Reason::EffectInBody, "a constant that a name of the program holds, read by what runs later");
  if (!holder->existing() || !found->object || held_now(holder->object, name).get() != found->object)
    cannot(Reason::EffectInBody, "a name that the segment binds, read by what runs later");
  add(holder, name);
}

void ReadLater::add(Value* holder, PyObject* name) {
  if (!holder->existing()) return;  // made in the capture: nobody else can rebind it
  Name added{share(holder->object), name};
  if (std::ranges::find(names_, added) == names_.end()) names_.push_back(std::move(added));
}

void ReadLater::check(Trace& trace, const Rebuilder& rebuild) const {
  for (const Kept& kept : kept_)
    if (rebuild.has(kept.value) || content_of(trace, kept.value) != kept.content) {
      if (kept.by_hook) throw HookLeaves{kept.step};
      trace.progress.stop_at(kept.step - 1, Reason::EffectInBody, "an object that backward or a later call reads");
    }
}

}  // namespace gramme::trace
