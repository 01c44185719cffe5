// How arguments become local variables. A signature and a shape of call are matched once; later calls of the shape only
// copy pointers, and reuse the *args tuple where no one can see that.
#include "runtime/binding.h"

#include <algorithm>

#include "base/once.h"
#include "cpython/objects.h"
#include "plan/segment.h"

namespace gramme::runtime {
namespace {

int parameter_count(PyCodeObject* code) { return code->co_argcount + code->co_kwonlyargcount; }

Py_ssize_t default_count(PyFunctionObject* function) {
  return function->func_defaults ? PyTuple_GET_SIZE(function->func_defaults) : 0;
}

bool same_names(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)  // interned as a rule; another object makes another shape
    if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i)) return false;
  return true;
}

/// The parameter a keyword names, -1 if none. Positional-only parameters have no keyword.
int parameter_named(PyCodeObject* code, PyObject* keyword) {
  for (int i = code->co_posonlyargcount; i < parameter_count(code); ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    if (name == keyword || PyUnicode_Compare(name, keyword) == 0) return i;
  }
  return -1;
}

PyObject* keyword_default(PyFunctionObject* function, int slot) {
  PyObject* value = nullptr;
  PyObject* name = PyTuple_GET_ITEM(cpython::code_of(function)->co_localsplusnames, slot);
  if (function->func_kwdefaults) cpython::dict_lookup(function->func_kwdefaults, name, &value);
  return value;
}

bool is_local(const source::Source* source, int slot) {
  return source->kind == source::Kind::Local && source->index == slot;
}

/// True if a guard, effect or result of the segment needs the local variable's object itself, not only what is in it.
bool reads(const plan::Segment& segment, int slot) {
  const auto& read = segment.guards.description().reads;
  return std::any_of(read.begin(), read.end(), [slot](const source::Source* source) { return is_local(source, slot); });
}

/// The items that the segment reads of a local variable, a tuple. None if it reads more than type, length and items.
std::optional<std::vector<Py_ssize_t>> items_read(const plan::Segment& segment, int slot) {
  std::vector<Py_ssize_t> items;
  auto follow = [&](const source::Source* source) {
    for (; source && source->base; source = source->base) {
      if (!is_local(source->base, slot)) continue;
      items.push_back(source->index);
      return source->kind == source::Kind::Item;
    }
    return true;
  };
  const plan::GuardDescription& description = segment.guards.description();
  for (const guards::Fact& fact : description.facts) {
    const bool plain = fact.kind == guards::Kind::Type || fact.kind == guards::Kind::Length;
    const bool whole = is_local(fact.source, slot) || (fact.other && is_local(fact.other, slot));
    if ((whole && !plain) || !follow(fact.source) || !follow(fact.other)) return std::nullopt;
  }
  if (!std::all_of(description.reads.begin(), description.reads.end(), follow)) return std::nullopt;
  return items;
}

/// Allocates with the collector off: a finalizer might call the function whose arguments are being bound, or reset the
/// table that holds the binder.
Owned<> new_tuple(Py_ssize_t size) {
  WithoutCollection no_finalizers;
  return Owned<>::steal(PyTuple_New(size));
}

Owned<> new_dict() {
  WithoutCollection no_finalizers;
  return Owned<>::steal(PyDict_New());
}

}  // namespace

[[gnu::hot]] bool Binder::Shape::fits(PyFunctionObject* function, Py_ssize_t count, PyObject* names) const {
  return count == nargs && runtime::default_count(function) == default_count && same_names(kwnames.get(), names);
}

[[gnu::hot]] bool Binder::bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                               BoundArguments& bound) {
  const Shape* shape = find(function, nargs, kwnames);
  if (!shape) return false;
  PyCodeObject* code = cpython::code_of(function);
  PyObject** locals = bound.locals();
  const int count = parameter_count(code);
  for (int i = 0; i < count; ++i) {
    const int32_t from = shape->from[static_cast<size_t>(i)];
    if (from >= 0)
      locals[i] = args[from];
    else if (from == kKeywordDefault)
      locals[i] = keyword_default(function, i);
    else
      locals[i] = PyTuple_GET_ITEM(function->func_defaults, -1 - from);
    if (!locals[i]) return false;  // the keyword default was deleted
  }
  std::fill(locals + count, locals + bound.slots(), nullptr);
  return !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) || collect(code, *shape, args, bound);
}

[[gnu::hot]] const Binder::Shape* Binder::find(PyFunctionObject* function, Py_ssize_t nargs, PyObject* kwnames) {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    if (!shapes_[i].fits(function, nargs, kwnames)) continue;
    if (i)
      std::rotate(shapes_.begin(), shapes_.begin() + static_cast<ptrdiff_t>(i),
                  shapes_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return &shapes_.front();
  }
  Shape shape;
  if (!make(function, nargs, kwnames, shape)) return nullptr;
  if (shapes_.size() == kShapes) shapes_.pop_back();
  shapes_.insert(shapes_.begin(), std::move(shape));
  return &shapes_.front();
}

[[gnu::cold]] bool Binder::make(PyFunctionObject* function, Py_ssize_t nargs, PyObject* kwnames, Shape& shape) {
  PyCodeObject* code = cpython::code_of(function);
  if (nargs > code->co_argcount && !(code->co_flags & CO_VARARGS)) return false;
  shape.nargs = nargs;
  shape.kwnames = share(kwnames);
  shape.default_count = runtime::default_count(function);
  shape.from.assign(static_cast<size_t>(parameter_count(code)), kUnset);
  for (int i = 0; i < std::min<Py_ssize_t>(nargs, code->co_argcount); ++i) shape.from[static_cast<size_t>(i)] = i;
  return place_keywords(code, nargs, kwnames, shape) && place_defaults(function, shape);
}

bool Binder::place_keywords(PyCodeObject* code, Py_ssize_t nargs, PyObject* kwnames, Shape& shape) {
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, i);
    if (!PyUnicode_CheckExact(keyword)) return false;
    const int slot = parameter_named(code, keyword);
    if (slot < 0) {
      if (!(code->co_flags & CO_VARKEYWORDS)) return false;
      shape.extra.push_back(static_cast<int32_t>(i));
      continue;
    }
    int32_t& from = shape.from[static_cast<size_t>(slot)];
    if (from != kUnset) return false;
    from = static_cast<int32_t>(nargs + i);
  }
  return true;
}

bool Binder::place_defaults(PyFunctionObject* function, Shape& shape) {
  PyCodeObject* code = cpython::code_of(function);
  const int first_default = code->co_argcount - static_cast<int>(shape.default_count);
  for (int i = 0; i < parameter_count(code); ++i) {
    int32_t& from = shape.from[static_cast<size_t>(i)];
    if (from != kUnset) continue;
    if (i < code->co_argcount) {
      if (i < first_default) return false;
      from = -1 - (i - first_default);
    } else {
      from = kKeywordDefault;
    }
  }
  return true;
}

[[gnu::hot]] bool Binder::collect(PyCodeObject* code, const Shape& shape, PyObject* const* args,
                                  BoundArguments& bound) {
  int slot = parameter_count(code);
  if (code->co_flags & CO_VARARGS) {
    const Py_ssize_t count = std::max<Py_ssize_t>(0, shape.nargs - code->co_argcount);
    PyObject* const* rest = args + code->co_argcount;
    if (!lend_rest(rest, count, bound) && !collect_rest(rest, count, bound)) return PyErr_Clear(), false;
    bound.locals()[slot++] = bound.rest_.get();
  }
  if (code->co_flags & CO_VARKEYWORDS && shape.extra.empty() && !gives_extra_away_) {
    PyObject* const empty = once([] { return new_dict().release(); });  // only guards look at it
    bound.locals()[slot] = empty;
  } else if (code->co_flags & CO_VARKEYWORDS) {
    bound.extra_ = new_dict();
    bool complete = static_cast<bool>(bound.extra_);
    for (int32_t i : shape.extra) {
      PyObject* keyword = PyTuple_GET_ITEM(shape.kwnames.get(), i);
      complete = complete && PyDict_SetItem(bound.extra_.get(), keyword, args[shape.nargs + i]) == 0;
    }
    if (!complete) return PyErr_Clear(), false;
    bound.locals()[slot] = bound.extra_.get();
  }
  return true;
}

bool Binder::collect_rest(PyObject* const* args, Py_ssize_t count, BoundArguments& bound) {
  bound.rest_ = new_tuple(count);
  if (!bound.rest_) return false;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(bound.rest_.get(), i, share(args[i]).release());
  return true;
}

/// Uses the last call's tuple again if nobody kept it. Its address stays, so guards bound to it need not find its items
/// anew.
[[gnu::hot]] bool Binder::lend_rest(PyObject* const* args, Py_ssize_t count, BoundArguments& bound) {
  constexpr Py_ssize_t kLong = 8;
  if (gives_rest_away_ || rest_->lent || count < kLong) return false;
  if (!rest_->tuple || PyTuple_GET_SIZE(rest_->tuple.get()) != count) {
    rest_->drop();
    rest_->tuple = new_tuple(count);
    if (!rest_->tuple) return PyErr_Clear(), false;
    PyObject_GC_UnTrack(rest_->tuple.get());  // the collector would take its borrowed items for references
  }
  PyObject** items = reinterpret_cast<PyTupleObject*>(rest_->tuple.get())->ob_item;
  if (lends_all_) std::copy_n(args, count, items);
  for (Py_ssize_t i : lent_items_)
    if (i < count) items[i] = args[i];
  bound.rest_ = rest_->tuple;
  bound.lent_ = rest_;
  bound.lent_from_ = args;
  rest_->lent = true;
  return true;
}

void Binder::note_reads(const plan::Segment& segment, PyCodeObject* code) {
  int slot = parameter_count(code);
  if (code->co_flags & CO_VARARGS) {
    if (reads(segment, slot))
      gives_rest_away_ = true;
    else
      lends_for(items_read(segment, slot));
    ++slot;
  }
  if (code->co_flags & CO_VARKEYWORDS && reads(segment, slot)) gives_extra_away_ = true;
}

/// Notes that a segment reads only these items of the *args tuple; nullopt: any of them.
void Binder::lends_for(const std::optional<std::vector<Py_ssize_t>>& items) {
  lends_all_ = lends_all_ || !items;
  if (items) lent_items_.insert(lent_items_.end(), items->begin(), items->end());
  std::sort(lent_items_.begin(), lent_items_.end());
  lent_items_.erase(std::unique(lent_items_.begin(), lent_items_.end()), lent_items_.end());
}

[[gnu::cold]] void LentTuple::drop() {
  if (tuple) std::fill_n(reinterpret_cast<PyTupleObject*>(tuple.get())->ob_item, Py_SIZE(tuple.get()), nullptr);
  tuple = {};
}

[[gnu::hot]] BoundArguments::~BoundArguments() {
  if (!lent_) return;
  auto* tuple = reinterpret_cast<PyTupleObject*>(rest_.get());
  constexpr Py_ssize_t kOurs = 2;
  if (Py_REFCNT(rest_.get()) > kOurs) {  // somebody keeps it: it becomes one like any other
    for (Py_ssize_t i = 0; i < Py_SIZE(tuple); ++i) tuple->ob_item[i] = share(lent_from_[i]).release();
    PyObject_GC_Track(tuple);
    lent_->tuple = {};
  }
  lent_->lent = false;
}

}  // namespace gramme::runtime
