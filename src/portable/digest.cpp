// Builds the bytes of a code object from canonical forms of its parts, and keeps their SHA-256 with the code.
#include "portable/digest.h"

#include <cstring>
#include <string_view>

#include "base/sha256.h"
#include "cpython/code_object.h"
#include "portable/canonical.h"

namespace gramme::portable {
namespace {

constexpr size_t kSize = 32;

std::string_view bytes_of(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

void add_int(std::string& bytes, int64_t number) { add_field(bytes, std::to_string(number)); }

bool add_names(std::string& bytes, PyObject* names) {
  add_int(bytes, PyTuple_GET_SIZE(names));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) add_field(bytes, characters(PyTuple_GET_ITEM(names, i)));
  return true;
}

bool add_constants(std::string& bytes, PyObject* constants) {
  add_int(bytes, PyTuple_GET_SIZE(constants));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(constants, i);
    std::string one;
    if (PyCode_Check(constant)) {
      one = digest_of(reinterpret_cast<PyCodeObject*>(constant));
      if (one.empty()) return false;
      one.insert(one.begin(), '&');
    } else if (!encode(constant, one)) {
      return false;
    }
    add_field(bytes, one);
  }
  return true;
}

/// Local, cell, free, hidden. How arguments are passed says the signature, and code.replace() does not say it here.
std::string kinds_of(PyCodeObject* code) {
  constexpr char kKind = static_cast<char>(0xF0);
  std::string kinds(bytes_of(code->co_localspluskinds));
  for (char& kind : kinds) kind &= kKind;
  return kinds;
}

bool add_code(std::string& bytes, PyCodeObject* code) {
  add_field(bytes, Py_GetVersion());
  for (const int number :
       {code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_flags, code->co_stacksize})
    add_int(bytes, number);
  add_field(bytes, bytes_of(take(PyCode_GetCode(code)).get()));
  add_field(bytes, bytes_of(code->co_exceptiontable));
  add_field(bytes, kinds_of(code));
  add_field(bytes, characters(code->co_name));
  add_field(bytes, characters(code->co_qualname));
  return add_names(bytes, code->co_names) && add_names(bytes, code->co_localsplusnames) &&
         add_constants(bytes, code->co_consts);
}

}  // namespace

std::string digest_of(PyCodeObject* code) {
  if (const char* known = cpython::code_digest(code)) return {known, kSize};
  std::string bytes;
  if (!add_code(bytes, code)) return {};
  std::string digest = sha256(bytes);
  cpython::set_code_digest(code, digest.data(), digest.size());
  return digest;
}

}  // namespace gramme::portable
