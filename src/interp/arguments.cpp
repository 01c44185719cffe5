// Binds the arguments of a call to the slots of a frame, as CPython does.
#include <algorithm>

#include "base/once.h"
#include "base/text.h"
#include "interp/interpreter.h"
#include "protocol/names.h"

namespace gramme::interp {

using namespace value;

using trace::Args;

namespace {
/// A function with the same parameters that does nothing; each default is None.
Owned<> same_signature(trace::Trace& trace, Function* function) {
  PyObject* const nothing = once([] {
    Owned<> globals = take(PyDict_New());
    Owned<> code = take(Py_CompileString("lambda: None", "<signature>", Py_eval_input));
    Owned<> lambda = take(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
    return take(PyObject_GetAttrString(lambda.get(), "__code__")).release();
  });
  PyCodeObject* code = function->code;
  int count = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
              !!(code->co_flags & CO_VARKEYWORDS);
  Owned<> names = take(PyTuple_GetSlice(code->co_localsplusnames, 0, count));
  int flags = reinterpret_cast<PyCodeObject*>(nothing)->co_flags | (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
  Owned<> parts =
      take(Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:O}", "co_argcount", code->co_argcount, "co_posonlyargcount",
                         code->co_posonlyargcount, "co_kwonlyargcount", code->co_kwonlyargcount, "co_nlocals", count,
                         "co_flags", flags, "co_varnames", names.get()));
  Owned<> replace = take(PyObject_GetAttrString(nothing, "replace")), none = take(PyTuple_New(0)),
          globals = take(PyDict_New());
  Owned<> like = take(PyObject_Call(replace.get(), none.get(), parts.get()));
  Owned<> made = take(PyFunction_NewWithQualName(like.get(), globals.get(), function->qualname));
  auto* defaults = function->defaults ? trace.see_as<Tuple>(function->defaults) : nullptr;
  if (defaults) {
    Owned<> values = take(PyTuple_New(static_cast<Py_ssize_t>(defaults->items.size())));
    for (size_t i = 0; i < defaults->items.size(); ++i) PyTuple_SET_ITEM(values.get(), i, share(Py_None).release());
    check(PyFunction_SetDefaults(made.get(), values.get()));
  }
  if (auto* keywords = function->kwdefaults ? trace.see_as<Dict>(function->kwdefaults) : nullptr) {
    Owned<> values = take(PyDict_New());
    for (int i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
      PyObject* name = PyTuple_GET_ITEM(names.get(), i);
      if (trace.dict_get(keywords, trace.constant(name))) check(PyDict_SetItem(values.get(), name, Py_None));
    }
    check(PyFunction_SetKwDefaults(made.get(), values.get()));
  }
  return made;
}

/// Raises CPython's own TypeError for these arguments.
[[noreturn]] void does_not_fit(trace::Trace& trace, Function* function, const Args& args) {
  Owned<> like = same_signature(trace, function), names = take(PyTuple_New(static_cast<Py_ssize_t>(args.keywords)));
  for (size_t i = 0; i < args.keywords; ++i) PyTuple_SET_ITEM(names.get(), i, share(args.names[i]).release());
  std::vector<PyObject*> values(args.positional + args.keywords + 1, Py_None);
  if (Owned<>::steal(
          PyObject_Vectorcall(like.get(), values.data(), args.positional, args.keywords ? names.get() : nullptr)))
    cannot(Reason::ArgumentKind, utf8_of(function->name) + "() called with arguments that do not fit");
  protocol::raise_current(trace);
}

int parameter_named(PyCodeObject* code, PyObject* name, int first, int last) {
  for (int i = first; i < last; ++i)
    if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) return i;
  for (int i = first; i < last; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) == 0) return i;
  return -1;
}
}  // namespace

void Interpreter::bind(Frame& frame, Function* function, const Args& args) {
  PyCodeObject* code = function->code;
  size_t positional = code->co_argcount, all = positional + code->co_kwonlyargcount;
  bool varargs = code->co_flags & CO_VARARGS, varkeywords = code->co_flags & CO_VARKEYWORDS;
  std::vector<Value*>& slots = frame.slots;
  size_t given = std::min(args.positional, positional);
  for (size_t i = 0; i < given; ++i) slots[i] = args[i];
  if (varargs) {
    slots[all] = trace.tuple(std::vector<Value*>(args.values + given, args.values + args.positional));
  } else if (args.positional > positional) {
    does_not_fit(trace, function, args);
  }
  Dict* extra = varkeywords ? trace.dict() : nullptr;
  if (extra) slots[all + varargs] = extra;
  for (size_t i = 0; i < args.keywords; ++i) {
    int at = parameter_named(code, args.names[i], code->co_posonlyargcount, static_cast<int>(all));
    if (at < 0 && extra) {
      extra->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
      continue;
    }
    if (at < 0 || slots[at]) does_not_fit(trace, function, args);
    slots[at] = args[args.positional + i];
  }
  if (function->defaults && given < positional) {
    auto* defaults = trace.see_as<Tuple>(function->defaults);
    if (!defaults) does_not_fit(trace, function, args);
    size_t first = positional - std::min(positional, defaults->items.size());
    for (size_t i = std::max(first, given); i < positional; ++i) {
      if (slots[i]) continue;
      slots[i] = defaults->items[i - first];
      trace.confinement.reads(nullptr, slots[i], function, protocol::names::k_defaults);
    }
  }
  for (size_t i = positional; i < all; ++i) {
    if (slots[i] || !function->kwdefaults) continue;
    auto* defaults = trace.see_as<Dict>(function->kwdefaults);
    if (defaults) slots[i] = trace.dict_get(defaults, trace.constant(frame.variable(static_cast<int>(i))));
    trace.confinement.reads(nullptr, slots[i], function, protocol::names::k_kwdefaults);
  }
  for (size_t i = 0; i < all; ++i)
    if (!slots[i]) does_not_fit(trace, function, args);
}

}  // namespace gramme::interp
