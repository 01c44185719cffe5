// Calls hashlib rather than a copy of the algorithm, so it needs the GIL.
#include "base/sha256.h"

#include "base/imported.h"
#include "base/once.h"
#include "base/ref.h"

namespace gramme {

std::string sha256(std::string_view bytes) {
  PyObject* const function = once([] { return imported("hashlib", "sha256").release(); });
  Owned<> data = take(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  Owned<> hash = take(PyObject_CallOneArg(function, data.get()));
  Owned<> digest = take(PyObject_CallMethod(hash.get(), "digest", nullptr));
  return {PyBytes_AS_STRING(digest.get()), static_cast<size_t>(PyBytes_GET_SIZE(digest.get()))};
}

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace gramme
