// Library functions that make a class at each call: namedtuple(), NamedTuple(), Enum(), on constants only. The class is
// made for the capture, and again by replay if it outlives the segment.
#include <algorithm>
#include <iterator>

#include "base/imported.h"
#include "base/once.h"
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

/// The module name for the class: that of the calling function, `outward` library frames further out. None if that
/// frame is unknown.
Owned<> calling_module(Trace& trace, size_t outward, const char* function) {
  static PyObject* const kName = intern("__name__");
  --trace.progress.frameless;  // the function's own frame
  const trace::CallSite site = trace.inliner->call_site(outward);
  ++trace.progress.frameless;
  if (!site.globals) cannot(Reason::CallSkipped, function);
  Value* name = trace.global(site.globals, kName);
  PyObject* known = name ? trace.constant_of(name) : nullptr;
  if (name && !known) cannot(Reason::CallSkipped, function);
  return known ? share(known) : share(Py_None);
}

/// An immutable object equal to the argument.
Owned<> part_of(Trace& trace, Value* argument) {
  auto* dict = trace.see_as<value::Dict>(argument);
  return dict && dict->type == &PyDict_Type ? trace.concrete(dict) : inert(trace, argument);
}

/// A callable that makes the class again: the function, bound to the arguments, to `first` if given, and to `module`.
Owned<> maker_of(Trace& trace, const Args& args, PyObject* function, PyObject* first, const char* name,
                 const Owned<>& module) {
  PyObject* const partial = once([] { return real("functools", "partial"); });
  static PyObject* const kModule = intern("module");
  Owned<> given = take(PyTuple_New(static_cast<Py_ssize_t>(args.positional) + 1)), keywords = take(PyDict_New());
  PyTuple_SET_ITEM(given.get(), 0, share(function).release());
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    Owned<> part = first && i == 0 ? share(first) : part_of(trace, args[i]);
    if (!part) cannot(Reason::CallSkipped, name);
    if (i < args.positional)
      PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i) + 1, part.release());
    else
      check(PyDict_SetItem(keywords.get(), args.names[i - args.positional], part.get()));
  }
  PyObject* said = PyDict_GetItemWithError(keywords.get(), kModule);
  if (!said || said == Py_None) check(PyDict_SetItem(keywords.get(), kModule, module.get()));
  return take(PyObject_Call(partial, given.get(), keywords.get()));
}

Value* made_by(Trace& trace, Owned<> maker, const char* name) {
  Owned<> made = Owned<>::steal(PyObject_CallNoArgs(maker.get()));
  if (!made) {
    PyErr_Clear();
    cannot(Reason::CallSkipped, name);
  }
  value::Class* cls = trace.classes.add(std::move(made), {}, {});
  cls->maker = trace.keep(std::move(maker));
  return cls;
}

Value* make_namedtuple(Trace& trace, const Args& args) {
  constexpr const char* kFunction = "collections.namedtuple";
  PyObject* const function = once([] { return real("collections", "namedtuple"); });
  Owned<> module = calling_module(trace, 0, kFunction);
  if (module.get() == Py_None) module = take(PyUnicode_FromString("__main__"));
  return made_by(trace, maker_of(trace, args, function, nullptr, kFunction, module), kFunction);
}

/// NamedTuple()'s fields: pairs of a name and a type, which may be any object.
Owned<> typed_fields(Trace& trace, Value* fields, const char* function) {
  Value* seen = trace.see(fields);
  auto* list = value::as<value::List>(seen);
  auto* tuple = value::as<value::Tuple>(seen);
  if (!list && (!tuple || tuple->type != &PyTuple_Type)) cannot(Reason::CallSkipped, function);
  const std::vector<Value*>& items = list ? list->items() : tuple->items;
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    auto* pair = trace.see_as<value::Tuple>(items[i]);
    if (!pair || pair->type != &PyTuple_Type || pair->items.size() != 2) cannot(Reason::CallSkipped, function);
    const Owned<> name = inert(trace, pair->items[0]);
    if (!name || !PyUnicode_CheckExact(name.get())) cannot(Reason::CallSkipped, function);
    Owned<> type = inert(trace, pair->items[1]);
    if (!type) type = share(leaf(trace, pair->items[1]));
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), take(PyTuple_Pack(2, name.get(), type.get())).release());
  }
  return result;
}

Value* make_typed_namedtuple(Trace& trace, const Args& args) {
  constexpr const char* kFunction = "typing.NamedTuple";
  PyObject* const partial = once([] { return real("functools", "partial"); });
  PyObject* const make = once([] { return imported("gramme._made_classes", "named_tuple").release(); });
  Owned<> name = args.positional == 2 && !args.keywords ? inert(trace, args[0]) : Owned<>();
  const Owned<> module = calling_module(trace, 0, kFunction);
  if (!name || !PyUnicode_CheckExact(name.get()) || module.get() == Py_None) cannot(Reason::CallSkipped, kFunction);
  const Owned<> fields = typed_fields(trace, args[1], kFunction);
  Owned<> maker = take(PyObject_CallFunctionObjArgs(partial, make, name.get(), fields.get(), module.get(), nullptr));
  return made_by(trace, std::move(maker), kFunction);
}

/// Enum(name, names) and its like, as called by EnumType.__call__.
Value* make_enum(Trace& trace, const Args& args) {
  constexpr const char* kFunction = "enum.EnumType._create_";
  PyObject* const known[] = {once([] { return real("enum", "Enum"); }), once([] { return real("enum", "IntEnum"); }),
                             once([] { return real("enum", "StrEnum"); }), once([] { return real("enum", "Flag"); }),
                             once([] { return real("enum", "IntFlag"); })};
  auto* cls = args.positional ? trace.see_as<value::Class>(args[0]) : nullptr;
  if (!cls || std::ranges::find(known, cls->object) == std::end(known)) cannot(Reason::CallSkipped, kFunction);
  PyObject* const create = once([] { return real("enum", "EnumType._create_"); });
  const Owned<> module = calling_module(trace, 1, kFunction);
  if (module.get() == Py_None) cannot(Reason::CallSkipped, kFunction);
  return made_by(trace, maker_of(trace, args, create, cls->object, kFunction, module), kFunction);
}

}  // namespace

void register_made_classes() {
  add_rows("collections", Takes::Asked, {{"namedtuple", &make_namedtuple}});
  add_rows("typing", Takes::Asked, {{"NamedTuple", &make_typed_namedtuple}});
  add_rows("enum", Takes::Asked, {{"EnumType._create_", &make_enum}});
}

}  // namespace gramme::builtins
