// A tagged binary format: one character for the type, then lengths and contents in a fixed byte order.
#include "portable/canonical.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/imported.h"
#include "base/once.h"
#include "cpython/entries.h"
#include "source/constant.h"

namespace gramme::portable {
namespace {

constexpr int kDeepest = 100;

/// Types of torch whose objects are constants: an object is identified by its name in the module torch, or by its text.
struct TorchTypes {
  PyObject* module = take(import_module("torch")).release();
  PyTypeObject* dtype = imported_type("torch", "dtype");
  PyTypeObject* layout = imported_type("torch", "layout");
  PyTypeObject* memory_format = imported_type("torch", "memory_format");
  PyTypeObject* device = imported_type("torch", "device");
  PyTypeObject* size = imported_type("torch", "Size");
};
const TorchTypes* torch_types() {
  if (!known_module("torch")) return nullptr;
  return once([] { return new TorchTypes; });
}

void add_number(std::string& bytes, uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> 8 * i & 255);
}

void add_double(std::string& bytes, double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  add_number(bytes, bits);
}

/// The UTF-8 of a str.
std::string text_of(Owned<> text) {
  Py_ssize_t size;
  const char* chars = PyUnicode_AsUTF8AndSize(text.get(), &size);
  if (!chars) throw PythonError();
  return {chars, static_cast<size_t>(size)};
}

class Encoder {
 public:
  explicit Encoder(std::string& bytes) : bytes_(bytes) {}

  bool add(PyObject* object, int depth) {
    if (depth > kDeepest) return false;
    if (const char tag = singleton(object)) return bytes_ += tag, true;
    if (PyLong_CheckExact(object)) return tagged('i', text_of(take(PyNumber_ToBase(object, 16))));
    if (PyFloat_CheckExact(object)) return bytes_ += 'f', add_double(bytes_, PyFloat_AS_DOUBLE(object)), true;
    if (PyComplex_CheckExact(object)) {
      const Py_complex number = reinterpret_cast<PyComplexObject*>(object)->cval;
      bytes_ += 'c';
      add_double(bytes_, number.real);
      add_double(bytes_, number.imag);
      return true;
    }
    if (PyUnicode_CheckExact(object)) return tagged('s', characters(object));
    if (PyBytes_CheckExact(object))
      return tagged('b', {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))});
    if (PyTuple_CheckExact(object)) return add_tuple('(', object, depth);
    if (PyFrozenSet_CheckExact(object)) return add_set(object, depth);
    if (PySlice_Check(object)) {
      auto* slice = reinterpret_cast<PySliceObject*>(object);
      bytes_ += ':';
      return add(slice->start, depth + 1) && add(slice->stop, depth + 1) && add(slice->step, depth + 1);
    }
    if (Py_IS_TYPE(object, &PyRange_Type)) return add_range(object);
    return add_of_torch(object, depth);
  }

 private:
  static char singleton(PyObject* object) {
    if (object == Py_None) return 'N';
    if (object == Py_True) return 'T';
    if (object == Py_False) return 'F';
    if (object == Py_Ellipsis) return '.';
    return object == Py_NotImplemented ? '!' : '\0';
  }
  bool tagged(char tag, std::string_view field) {
    bytes_ += tag;
    add_field(bytes_, field);
    return true;
  }

  bool add_tuple(char tag, PyObject* tuple, int depth) {
    bytes_ += tag;
    add_number(bytes_, static_cast<uint64_t>(PyTuple_GET_SIZE(tuple)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
      if (!add(PyTuple_GET_ITEM(tuple, i), depth + 1)) return false;
    return true;
  }

  bool add_set(PyObject* set, int depth) {
    std::vector<std::string> members;
    PyObject* member;
    Py_hash_t hash;
    for (Py_ssize_t at = 0; cpython::next_member(set, &at, &member, &hash);)
      if (!Encoder(members.emplace_back()).add(member, depth + 1)) return false;
    std::sort(members.begin(), members.end());
    bytes_ += '{';
    add_number(bytes_, members.size());
    for (const std::string& each : members) bytes_ += each;
    return true;
  }

  /// A range holds exact ints, whatever it was made from.
  bool add_range(PyObject* range) {
    bytes_ += 'r';
    for (const char* name : {"start", "stop", "step"})
      if (!add(take(PyObject_GetAttrString(range, name)).get(), 0)) return false;
    return true;
  }

  bool add_of_torch(PyObject* object, int depth) {
    const TorchTypes* torch = torch_types();
    if (!torch) return false;
    PyTypeObject* type = Py_TYPE(object);
    if (type == torch->size) return add_tuple('Z', object, depth);
    if (type == torch->device) return tagged('D', text_of(take(PyObject_Str(object))));
    if (type != torch->dtype && type != torch->layout && type != torch->memory_format) return false;
    const std::string name = text_of(take(PyObject_Repr(object)));
    const size_t dot = name.find('.');
    return dot != std::string::npos && tagged('t', std::string_view(name).substr(dot + 1));
  }

  std::string& bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : left_(bytes) {}

  Owned<> all() {
    Owned<> object = next(0);
    if (!left_.empty()) refuse();
    return object;
  }

 private:
  [[noreturn]] static void refuse() {
    PyErr_SetString(PyExc_ValueError, "not the bytes of a constant");
    throw PythonError();
  }
  std::string_view cut(size_t size) {
    if (size > left_.size()) refuse();
    const std::string_view field = left_.substr(0, size);
    left_.remove_prefix(size);
    return field;
  }
  uint64_t number() {
    const std::string_view field = cut(8);
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint8_t>(field[i]);
    return value;
  }
  std::string_view field() { return cut(number()); }
  double real() {
    const uint64_t bits = number();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  /// A number of items, each of at least one byte.
  size_t count() {
    const uint64_t value = number();
    if (value > left_.size()) refuse();
    return value;
  }

  Owned<> next(int depth) {
    if (depth > kDeepest) refuse();
    switch (cut(1)[0]) {
      case 'N':
        return share(Py_None);
      case 'T':
        return share(Py_True);
      case 'F':
        return share(Py_False);
      case '.':
        return share(Py_Ellipsis);
      case '!':
        return share(Py_NotImplemented);
      case 'i':
        return take(PyLong_FromString(std::string(field()).c_str(), nullptr, 16));
      case 'f':
        return take(PyFloat_FromDouble(real()));
      case 'c': {
        const double first = real();
        return take(PyComplex_FromDoubles(first, real()));
      }
      case 's':
        return text(field());
      case 'b': {
        const std::string_view bytes = field();
        return take(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
      }
      case '(':
        return tuple(depth);
      case '{':
        return take(PyFrozenSet_New(tuple(depth).get()));
      case ':': {
        const Owned<> start = next(depth + 1), stop = next(depth + 1), step = next(depth + 1);
        return take(PySlice_New(start.get(), stop.get(), step.get()));
      }
      case 'r': {
        const Owned<> start = next(depth + 1), stop = next(depth + 1), step = next(depth + 1);
        return take(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyRange_Type), start.get(), stop.get(),
                                                 step.get(), nullptr));
      }
      default:
        return of_torch(depth);
    }
  }

  Owned<> tuple(int depth) {
    const size_t size = count();
    Owned<> items = take(PyTuple_New(static_cast<Py_ssize_t>(size)));
    for (size_t i = 0; i < size; ++i) PyTuple_SET_ITEM(items.get(), i, next(depth + 1).release());
    return items;
  }

  static Owned<> text(std::string_view characters) {
    if (characters.size() % 4) refuse();
    std::vector<Py_UCS4> all(characters.size() / 4);
    for (size_t i = 0; i < characters.size(); ++i)
      all[i / 4] |= static_cast<Py_UCS4>(static_cast<uint8_t>(characters[i])) << 8 * (i % 4);
    if (std::ranges::any_of(all, [](Py_UCS4 character) { return character > 0x10ffff; })) refuse();
    Owned<> text =
        take(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, all.data(), static_cast<Py_ssize_t>(all.size())));
    if (PyUnicode_IsIdentifier(text.get()) != 1) return text;
    PyObject* name = text.release();
    PyUnicode_InternInPlace(&name);
    return Owned<>::steal(name);
  }

  Owned<> of_torch(int depth) {
    const char tag = left_.data()[-1];
    const TorchTypes* torch = torch_types();
    if (!torch) refuse();
    if (tag == 'Z') return take(PyObject_CallOneArg(reinterpret_cast<PyObject*>(torch->size), tuple(depth).get()));
    if (tag == 'D') {
      const std::string name(field());
      return take(PyObject_CallFunction(reinterpret_cast<PyObject*>(torch->device), "s", name.c_str()));
    }
    if (tag != 't') refuse();
    const std::string name(field());
    PyObject* found = PyDict_GetItemString(PyModule_GetDict(torch->module), name.c_str());
    if (!found) refuse();
    PyTypeObject* type = Py_TYPE(found);
    if (type != torch->dtype && type != torch->layout && type != torch->memory_format) refuse();
    return share(found);
  }

  std::string_view left_;
};

}  // namespace

void add_field(std::string& bytes, std::string_view field) {
  add_number(bytes, field.size());
  bytes += field;
}

std::string characters(PyObject* text) {
  std::string all;
  if (PyUnicode_READY(text) < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text); ++i) {
    const Py_UCS4 character = PyUnicode_READ_CHAR(text, i);
    for (int shift = 0; shift < 32; shift += 8) all += static_cast<char>(character >> shift & 255);
  }
  return all;
}

bool encode(PyObject* object, std::string& bytes) { return Encoder(bytes).add(object, 0); }

Owned<> decode(std::string_view bytes) { return Decoder(bytes).all(); }

}  // namespace gramme::portable
