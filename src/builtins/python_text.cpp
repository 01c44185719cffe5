// str and bytes: constructors, methods, str.join and str.format of traced objects; chr, repr, format; regular
// expressions.
#include "base/once.h"
#include "base/text.h"
#include "builtins/python_support.h"
#include "protocol/special.h"

namespace gramme::builtins {
namespace {

using value::Kind;

PyObject* text_or_stop(Trace& trace, Value* text) {
  PyObject* object = trace.constant_of(trace.see(text));
  if (!object || !PyUnicode_Check(object)) cannot(Reason::ArgumentKind, "text that is not constant");
  return object;
}

// ---- builtins

Value* make_str(Trace& trace, const Args& args) {
  if (args.positional == 0 && !args.keywords) return trace.text("");
  if (args.positional == 1 && !args.keywords) return protocol::to_str(trace, args[0]);
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyUnicode_Type), args, "str");
}

Value* make_bytes(Trace& trace, const Args& args) {
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyBytes_Type), args, "bytes");
}

Value* repr(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  return protocol::to_repr(trace, object);
}

Value* ascii(Trace& trace, const Args& args) {
  PyObject* const real_ascii = once([] { return real("builtins", "ascii"); });
  auto [object] = positional<1>(args, 1);
  PyObject* shown = text_or_stop(trace, protocol::to_repr(trace, object));
  if (PyUnicode_IS_ASCII(shown)) return trace.constant(shown);
  return fold_or_stop(trace, real_ascii, args, "ascii");
}

Value* format(Trace& trace, const Args& args) {
  auto [object, spec] = positional<2>(args, 1);
  return protocol::format(trace, object, spec);
}

// ---- str.join

Value* join(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 2);
  PyObject* separator = text_or_stop(trace, self);
  Owned<> parts = take(PyList_New(0));
  Value* whole = trace.see(iterable);
  bool sequence = whole->kind == value::Kind::List || whole->kind == value::Kind::Tuple;
  for (Value* item : protocol::items_of(trace, sequence ? whole : protocol::get_iterator(trace, whole))) {
    Value* seen = protocol::builtin_part(trace.see(item));
    const bool text = protocol::is_constant_of(seen, &PyUnicode_Type);
    if (!text && protocol::has_own_class(trace.see(item)))
      cannot(Reason::ArgumentKind, std::string("join() of a ") + type_name(trace.see(item)));
    if (!text)
      protocol::raise(trace, PyExc_TypeError,
                      "sequence item " + std::to_string(PyList_GET_SIZE(parts.get())) + ": expected str instance, " +
                          type_name(seen) + " found");
    check(PyList_Append(parts.get(), seen->object));
  }
  return trace.constant(take(PyUnicode_Join(separator, parts.get())));
}

// ---- str.format, whose fields may be any object

/// The arguments of one format() call, and the number of the next `{}`.
struct Fields {
  std::vector<Value*> values;
  const Args& keywords;
  Value* mapping = nullptr;  // argument of format_map
  size_t next = 0;
  enum { Unnumbered, Automatic, Manual } numbering = Unnumbered;
};

/// Raises ValueError if a template mixes numbered and automatic fields.
void expect_numbering(Trace& trace, Fields& fields, bool automatic) {
  const auto wanted = automatic ? Fields::Automatic : Fields::Manual;
  if (fields.numbering == Fields::Unnumbered) fields.numbering = wanted;
  if (fields.numbering == wanted) return;
  protocol::raise(trace, PyExc_ValueError,
                  automatic ? "cannot switch from manual field specification to automatic field numbering"
                            : "cannot switch from automatic field numbering to manual field specification");
}

std::string format_text(Trace& trace, Fields& fields, PyObject* format, int depth);

Value* first_part(Trace& trace, Fields& fields, PyObject* first) {
  if (PyUnicode_Check(first) && PyUnicode_GET_LENGTH(first) > 0) {
    if (fields.mapping) return protocol::get_item(trace, fields.mapping, trace.constant(first));
    if (Value* named = fields.keywords.keyword(first)) return named;
    raise_key_error(trace, trace.constant(first));
  }
  const bool automatic = !PyLong_Check(first);
  expect_numbering(trace, fields, automatic);
  size_t at = automatic ? fields.next++ : PyLong_AsSize_t(first);
  if (fields.mapping) protocol::raise(trace, PyExc_ValueError, "Format string contains positional fields");
  if (at < fields.values.size()) return fields.values[at];
  protocol::raise(trace, PyExc_IndexError,
                  "Replacement index " + std::to_string(at) + " out of range for positional args tuple");
}

/// The value of a replacement field's `name.attribute[key]`.
Value* field_value(Trace& trace, Fields& fields, PyObject* name) {
  PyObject* const split = once([] { return real("_string", "formatter_field_name_split"); });
  Owned<> parts = call_real(trace, split, {name});
  Value* found = first_part(trace, fields, PyTuple_GET_ITEM(parts.get(), 0));
  Owned<> steps = take(PySequence_List(PyTuple_GET_ITEM(parts.get(), 1)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps.get()); ++i) {
    PyObject* step = PyList_GET_ITEM(steps.get(), i);
    Value* key = trace.constant(PyTuple_GET_ITEM(step, 1));
    bool attribute = PyTuple_GET_ITEM(step, 0) == Py_True;
    found = attribute ? protocol::get_attribute(trace, found, name_argument(trace, key))
                      : protocol::get_item(trace, found, key);
  }
  return found;
}

std::string format_field(Trace& trace, Fields& fields, PyObject* parsed, int depth) {
  Value* value = field_value(trace, fields, PyTuple_GET_ITEM(parsed, 1));
  PyObject* conversion = PyTuple_GET_ITEM(parsed, 3);
  Py_UCS4 letter = conversion == Py_None ? 0 : PyUnicode_READ_CHAR(conversion, 0);
  if (letter == 's') value = protocol::to_str(trace, value);
  if (letter == 'r') value = protocol::to_repr(trace, value);
  if (letter && letter != 's' && letter != 'r') cannot(Reason::ArgumentKind, "a conversion in a format string");
  std::string spec = format_text(trace, fields, PyTuple_GET_ITEM(parsed, 2), depth + 1);
  return utf8_of(text_or_stop(trace, protocol::format(trace, value, trace.text(spec))));
}

std::string format_text(Trace& trace, Fields& fields, PyObject* format, int depth) {
  PyObject* const parser = once([] { return real("_string", "formatter_parser"); });
  if (depth > 2) protocol::raise(trace, PyExc_ValueError, "Max string recursion exceeded");
  Owned<> parts = call_real(trace, parser, {format});
  std::string text;
  while (PyObject* part = PyIter_Next(parts.get())) {
    Owned<> parsed = Owned<>::steal(part);
    text += utf8_of(PyTuple_GET_ITEM(part, 0));
    if (PyTuple_GET_ITEM(part, 1) != Py_None) text += format_field(trace, fields, part, depth);
  }
  if (PyErr_Occurred()) protocol::raise_current(trace);
  return text;
}

Value* str_format(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, "str.format without text");
  Fields fields{{args.values + 1, args.values + args.positional}, args};
  return trace.text(format_text(trace, fields, text_or_stop(trace, args[0]), 0));
}

Value* str_format_map(Trace& trace, const Args& args) {
  auto [self, mapping] = positional<2>(args, 2);
  Fields fields{{}, args, mapping};
  return trace.text(format_text(trace, fields, text_or_stop(trace, self), 0));
}

/// A class method or static method of a builtin type on constants: bytes.fromhex, int.from_bytes. args[0] is the class.
template <Text name>
Value* class_method(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, name.text);
  PyTypeObject* type = class_argument(trace, args[0]);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) cannot(Reason::ArgumentKind, std::string(name.text) + " of a subclass");
  Owned<> method = take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name.text));
  return fold_or_stop(trace, method.get(), rest(args, 1), name.text);
}

// ---- re: compiled patterns and matches are immutable; functions of constants are called for real

template <Text name>
Value* re_function(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("re", name.text); });
  return fold_or_stop(trace, function, args, name.text);
}

/// A method of a pattern or match, existing or made in the capture.
template <Text name>
Value* re_method(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, name.text);
  Value* self = trace.see(args[0]);
  PyObject* object = self->kind == Kind::Constant ? self->object : leaf(trace, self);
  Owned<> method = take(PyObject_GetAttrString(object, name.text));
  return fold_or_stop(trace, method.get(), rest(args, 1), name.text);
}

/// Compares two existing patterns; NotImplemented for anything else.
template <int op>
Value* compare_patterns(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value *left = trace.see(self), *right = trace.see(other);
  if (protocol::type_of(left) != protocol::type_of(right)) return trace.constant(Py_NotImplemented);
  return trace.constant(take(PyObject_RichCompare(leaf(trace, left), leaf(trace, right), op)));
}

void register_re() {
  add_rows("re", Takes::Plain,
           {
               {"compile", &re_function<"compile">},
               {"match", &re_function<"match">},
               {"fullmatch", &re_function<"fullmatch">},
               {"search", &re_function<"search">},
               {"sub", &re_function<"sub">},
               {"subn", &re_function<"subn">},
               {"split", &re_function<"split">},
               {"findall", &re_function<"findall">},
               {"escape", &re_function<"escape">},
           });
  add_rows("re", {"Pattern"}, Takes::Plain,
           {
               {"match", &re_method<"match">},
               {"fullmatch", &re_method<"fullmatch">},
               {"search", &re_method<"search">},
               {"sub", &re_method<"sub">},
               {"subn", &re_method<"subn">},
               {"split", &re_method<"split">},
               {"findall", &re_method<"findall">},
           });
  add_rows("re", {"Pattern"}, Takes::Asked,
           {{"__eq__", &compare_patterns<Py_EQ>}, {"__ne__", &compare_patterns<Py_NE>}});
  add_rows("re", {"Match"}, Takes::Plain,
           {
               {"group", &re_method<"group">},
               {"groups", &re_method<"groups">},
               {"groupdict", &re_method<"groupdict">},
               {"start", &re_method<"start">},
               {"end", &re_method<"end">},
               {"span", &re_method<"span">},
               {"expand", &re_method<"expand">},
               {"__getitem__", &re_method<"__getitem__">},
           });
}

// ---- repr() that shows "..." for an object inside itself: dataclasses, reprlib

/// The wrapper's set of running calls is unchanged afterwards, so there is no effect.
Value* recursive_repr(Trace& trace, const Args& args, value::Function* wrapper, Value* fill) {
  auto [self] = positional<1>(args, 1);
  auto* running = trace.see_as<value::Set>(free_variable(trace, wrapper, "repr_running"));
  bool foreign = !running;
  if (running) running->entries.each([&](auto& entry) { foreign = foreign || !value::is_address(entry.key); });
  if (foreign) cannot(Reason::ArgumentKind, "repr() of an object while another call shows it");
  Value* address = trace.address(self);
  if (running->entries.find(address)) return fill;
  running->entries.set(address, nullptr);
  try {
    Value* result = protocol::call(trace, free_variable(trace, wrapper, "user_function"), {self});
    running->entries.erase(address);
    return result;
  } catch (const value::UserError&) {
    running->entries.erase(address);
    throw;
  }
}

Value* repr_of_dataclass(Trace& trace, value::Function* wrapper, const Args& args) {
  return recursive_repr(trace, args, wrapper, trace.text("..."));
}

Value* repr_by_reprlib(Trace& trace, value::Function* wrapper, const Args& args) {
  return recursive_repr(trace, args, wrapper, free_variable(trace, wrapper, "fillvalue"));
}

}  // namespace

void register_text() {
  protocol::add_function_model("dataclasses.py", "_recursive_repr.<locals>.wrapper", &repr_of_dataclass);
  protocol::add_function_model("reprlib.py", "recursive_repr.<locals>.decorating_function.<locals>.wrapper",
                               &repr_by_reprlib);
  add_pure_methods(&PyUnicode_Type, {"join", "format", "format_map"});
  add_pure_methods(&PyBytes_Type);
  add_pure("builtins", {"str.maketrans", "bytes.maketrans", "chr", "ord"});
  add_rows("builtins", Takes::Asked,
           {
               {"str", &make_str},
               {"bytes", &make_bytes},
               {"repr", &repr},
               {"ascii", &ascii},
               {"format", &format},
               {"str.join", &join},
               {"str.format", &str_format},
               {"str.format_map", &str_format_map},
               {"int.from_bytes", &class_method<"from_bytes">},
               {"float.fromhex", &class_method<"fromhex">},
               {"bytes.fromhex", &class_method<"fromhex">},
           });
  register_re();
}

}  // namespace gramme::builtins
