#include "cpython/entries.h"

#include "cpython/internal.h"

namespace gramme::cpython {

bool next_entry(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash) {
  if (!PyDict_Next(dict, at, key, value)) return false;
  PyDictKeysObject* const keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  // A table of strings alone keeps no hashes: strings do. In the others an entry's place is what PyDict_Next counts.
  *hash = DK_IS_UNICODE(keys) ? PyObject_Hash(*key) : DK_ENTRIES(keys)[*at - 1].me_hash;
  return true;
}

}  // namespace gramme::cpython
