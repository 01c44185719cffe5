// `text % arguments`: arguments of %s and %r that are no constants are converted to text first, then Python formats.
#include "protocol/percent.h"

#include "protocol/number.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// The conversions of a format that has no mapping keys or stars, and the format with chosen %r replaced by %s.
struct Format {
  std::string text;
  std::vector<size_t> at;  // positions of the conversion letters

  bool parse(PyObject* format) {
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(format, &size);
    if (!bytes) {
      PyErr_Clear();
      return false;
    }
    text.assign(bytes, static_cast<size_t>(size));
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') continue;
      size_t letter = text.find_first_not_of("#0- +123456789.hlL", i + 1);
      if (letter == std::string::npos || text[letter] == '*' || text[letter] == '(') return false;
      if (text[letter] != '%') at.push_back(letter);
      i = letter;
    }
    return true;
  }
};

std::vector<Value*> arguments_of(Value* arguments) {
  auto* tuple = as<Tuple>(builtin_part(arguments));
  return tuple ? tuple->items : std::vector<Value*>{arguments};
}

}  // namespace

Value* percent(Trace& trace, Value* format, Value* arguments) {
  arguments = known(trace, arguments);
  if (Owned<> concrete = inert(trace, arguments))
    return folded(trace, PyNumber_Remainder(format->object, concrete.get()));
  Format parsed;
  std::vector<Value*> values = arguments_of(arguments);
  if (!PyUnicode_CheckExact(format->object) || !parsed.parse(format->object) || parsed.at.size() != values.size())
    cannot(Reason::ArgumentKind, "% formatting of " + type_name(arguments));
  Owned<> texts = take(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    Value* item = known(trace, trace.see(values[i]));
    char& letter = parsed.text[parsed.at[i]];
    if (letter == 's' || letter == 'r') {
      item = trace.see(letter == 's' ? to_str(trace, item) : to_repr(trace, item));
      letter = 's';
    }
    Value* part = builtin_part(item);
    Owned<> object = part == item || part->kind == Kind::Constant ? inert(trace, part) : Owned<>();
    if (!object) cannot(Reason::ArgumentKind, "% formatting of " + type_name(item));
    PyTuple_SET_ITEM(texts.get(), static_cast<Py_ssize_t>(i), object.release());
  }
  Owned<> text = take(PyUnicode_FromStringAndSize(parsed.text.data(), static_cast<Py_ssize_t>(parsed.text.size())));
  return folded(trace, PyNumber_Remainder(text.get(), texts.get()));
}

}  // namespace gramme::protocol
