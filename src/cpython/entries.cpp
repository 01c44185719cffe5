// Apart from the header because it needs the internal layout of dicts.
#include "cpython/entries.h"

#include "cpython/internal.h"

namespace gramme::cpython {

bool next_entry(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash) {
  if (!PyDict_Next(dict, at, key, value)) return false;
  PyDictKeysObject* const keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  // A table with only str keys stores no hashes: the strs do. In other tables PyDict_Next's position is the entry's
  // index plus one.
  *hash = DK_IS_UNICODE(keys) ? PyObject_Hash(*key) : DK_ENTRIES(keys)[*at - 1].me_hash;
  return true;
}

}  // namespace gramme::cpython
