// Reads dicts, instances and types through CPython's internal layouts; each difference between versions is one #if
// here.
#include "cpython/objects.h"

#include <cstring>
#include <iterator>

#include "base/imported.h"
#include "base/once.h"
#include "base/ref.h"
#include "cpython/entries.h"
#include "cpython/internal.h"

namespace gramme::cpython {
namespace {

using DictKeys = PyDictKeysObject;

Py_ssize_t index_at(const DictKeys* keys, size_t i) {
  const char* table = keys->dk_indices;
  switch (keys->dk_log2_index_bytes - keys->dk_log2_size) {
    case 0:
      return reinterpret_cast<const int8_t*>(table)[i];
    case 1:
      return reinterpret_cast<const int16_t*>(table)[i];
    case 2:
      return reinterpret_cast<const int32_t*>(table)[i];
    default:
      return reinterpret_cast<const int64_t*>(table)[i];
  }
}

/// Walks the probe sequence of `hash`; `same(index)` tells whether an entry has the key. Returns the index or -1.
template <class Same>
Py_ssize_t probe(const DictKeys* keys, Py_hash_t hash, Same same) {
  const size_t mask = (size_t{1} << keys->dk_log2_size) - 1;
  size_t perturb = static_cast<size_t>(hash);
  size_t i = perturb & mask;
  for (;;) {
    Py_ssize_t index = index_at(keys, i);
    if (index == DKIX_EMPTY) return -1;
    if (index >= 0 && same(index)) return index;
    perturb >>= 5;
    i = (i * 5 + perturb + 1) & mask;
  }
}

PyDictUnicodeEntry* unicode_entries(DictKeys* keys) {
  return reinterpret_cast<PyDictUnicodeEntry*>(keys->dk_indices + (size_t{1} << keys->dk_log2_index_bytes));
}
PyDictKeyEntry* general_entries(DictKeys* keys) {
  return reinterpret_cast<PyDictKeyEntry*>(keys->dk_indices + (size_t{1} << keys->dk_log2_index_bytes));
}

Py_hash_t unicode_hash(PyObject* name) {
  Py_hash_t hash = reinterpret_cast<PyASCIIObject*>(name)->hash;
  return hash != -1 ? hash : PyObject_Hash(name);
}

Py_ssize_t find_unicode(DictKeys* keys, PyObject* name, Py_hash_t hash) {
  PyDictUnicodeEntry* entries = unicode_entries(keys);
  return probe(keys, hash, [&](Py_ssize_t index) {
    PyObject* key = entries[index].me_key;
    return key == name || (unicode_hash(key) == hash && PyUnicode_Compare(key, name) == 0);
  });
}

/// For tables with keys other than str: user code might decide whether a key with the same hash is equal.
Py_ssize_t find_general(DictKeys* keys, PyObject* key, Py_hash_t hash, bool* needs_python) {
  PyDictKeyEntry* entries = general_entries(keys);
  return probe(keys, hash, [&](Py_ssize_t index) {
    PyObject* candidate = entries[index].me_key;
    if (candidate == key) return true;
    if (entries[index].me_hash != hash) return false;
    if (!is_inert_key(candidate)) {
      *needs_python = true;
      return true;
    }
    int equal = PyObject_RichCompareBool(candidate, key, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
  });
}

PyObject** value_slot(PyDictObject* dict, Py_ssize_t index) {
  if (dict->ma_values) return &dict->ma_values->values[index];
  if (DK_IS_UNICODE(dict->ma_keys)) return &unicode_entries(dict->ma_keys)[index].me_value;
  return &general_entries(dict->ma_keys)[index].me_value;
}

PyObject** find_value(PyDictObject* dict, PyObject* key, bool* needs_python) {
  DictKeys* keys = dict->ma_keys;
  Py_ssize_t index;
  if (DK_IS_UNICODE(keys)) {
    if (!PyUnicode_CheckExact(key)) return nullptr;  // an inert key that is no str never equals a str
    index = find_unicode(keys, key, unicode_hash(key));
  } else {
    Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1) {
      PyErr_Clear();
      return nullptr;
    }
    index = find_general(keys, key, hash, needs_python);
  }
  if (index < 0 || *needs_python) return nullptr;
  PyObject** slot = value_slot(dict, index);
  return *slot ? slot : nullptr;  // the keys of a split table are shared, so this dict may lack one
}

DictKeys* shared_keys(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !has_managed_dict(type)) return nullptr;
  return reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
}

const uint64_t* word(const void* address) { return static_cast<const uint64_t*>(address); }

/// Values stored under shared keys, and the order in which they were first stored.
class Values {
 public:
  explicit Values(PyDictValues* values) : values_(values) {}
  PyObject** address(Py_ssize_t index) const { return &values_->values[index]; }
#if GRAMME_PYTHON_VALUES_INSIDE
  Py_ssize_t count() const { return values_->size; }
  int index_of_nth(Py_ssize_t n) const { return get_insertion_order_array(values_)[n]; }
  /// The first word includes the count.
  void order_words(Words& words) const {
    words.push_back(word(values_));
    const uint8_t* order = get_insertion_order_array(values_);
    for (Py_ssize_t n = 0; n < count(); n += 8) words.push_back(word(order + n));
  }
#else
  Py_ssize_t count() const { return bytes()[-2]; }
  int index_of_nth(Py_ssize_t n) const { return bytes()[-3 - n]; }
  void order_words(Words& words) const {
    const uint8_t* address = bytes() - 8;
    for (Py_ssize_t rest = 2 + count(); rest > 0; rest -= 8, address -= 8) words.push_back(word(address));
  }
#endif

 private:
  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(values_); }
  PyDictValues* values_;
};

#if GRAMME_PYTHON_VALUES_INSIDE
Values inline_values(PyObject* object) { return Values(_PyObject_InlineValues(object)); }
#elif GRAMME_PYTHON_VALUES_OR_DICT
Values inline_values(PyObject* object) {
  return Values(_PyDictOrValues_GetValues(*_PyObject_DictOrValuesPointer(object)));
}
#else
PyDictValues** values_address(PyObject* object) { return reinterpret_cast<PyDictValues**>(object) - 4; }
Values inline_values(PyObject* object) { return Values(*values_address(object)); }
#endif

}  // namespace

bool is_inert_key(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
      type == &PyBytes_Type || type == &PyComplex_Type || type == &PyType_Type || type == &PyCFunction_Type)
    return true;
  if (type->tp_richcompare == PyBaseObject_Type.tp_richcompare && type->tp_hash == PyBaseObject_Type.tp_hash)
    return true;  // compared by identity: functions, modules, most user objects
  if (key == Py_None || key == Py_Ellipsis) return true;
  const bool tuple = PyTuple_Check(key) && type->tp_richcompare == PyTuple_Type.tp_richcompare &&
                     type->tp_hash == PyTuple_Type.tp_hash;  // also torch.Size, a named tuple
  if (tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_inert_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  if (type == &PyFrozenSet_Type) {
    Py_ssize_t position = 0;
    PyObject* item;
    Py_hash_t hash;
    while (next_member(key, &position, &item, &hash))
      if (!is_inert_key(item)) return false;
    return true;
  }
  return false;
}

Lookup dict_lookup(PyObject* dict, PyObject* key, PyObject** value) {
  bool needs_python = false;
  PyObject** slot = find_value(reinterpret_cast<PyDictObject*>(dict), key, &needs_python);
  *value = slot ? *slot : nullptr;
  return slot ? Lookup::Found : needs_python ? Lookup::NeedsPython : Lookup::Absent;
}

PyObject** dict_value_address(PyObject* dict, PyObject* key) {
  bool needs_python = false;
  return find_value(reinterpret_cast<PyDictObject*>(dict), key, &needs_python);
}

bool dict_entry(PyObject* object, Py_ssize_t index, PyObject** key, PyObject** value) {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  if (index < 0 || index >= dict->ma_used) return false;
  if (!dict->ma_values && dict->ma_keys->dk_nentries == dict->ma_used) {  // no holes
    *value = *value_slot(dict, index);
    *key = DK_IS_UNICODE(dict->ma_keys) ? unicode_entries(dict->ma_keys)[index].me_key
                                        : general_entries(dict->ma_keys)[index].me_key;
    return true;
  }
  Py_ssize_t position = 0;
  for (Py_ssize_t i = 0; PyDict_Next(object, &position, key, value); ++i)
    if (i == index) return true;
  return false;
}

namespace {

/// Where the key of a value is stored.
PyObject** key_of_value(PyDictObject* dict, PyObject** value) {
  static_assert(offsetof(PyDictUnicodeEntry, me_value) == offsetof(PyDictUnicodeEntry, me_key) + sizeof(PyObject*));
  static_assert(offsetof(PyDictKeyEntry, me_value) == offsetof(PyDictKeyEntry, me_key) + sizeof(PyObject*));
  return dict->ma_values ? &unicode_entries(dict->ma_keys)[value - dict->ma_values->values].me_key : value - 1;
}

/// True for keys whose lifetime the program cannot observe, so that holding them is safe.
bool is_plain_key(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || key == Py_None;
}

/// Adds words for the nodes of the OrderedDict's linked list.
void ordered_dict_words(PyObject* dict, Words& words) {
  auto* odict = reinterpret_cast<layout::ODict*>(dict);
  words.push_back(word(&odict->first));
  for (auto* node = odict->first; node; node = node->next) {
    words.push_back(word(&node->key));
    words.push_back(word(&node->next));
  }
}

}  // namespace

/// Adds the pointer to the keys, the word with the layout of their table, and the pointer to the values of a split
/// table.
void dict_table_words(PyObject* object, Words& words) {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  words.push_back(word(&dict->ma_keys));
  words.push_back(word(&dict->ma_keys->dk_log2_size));
  words.push_back(word(&dict->ma_values));
}
static_assert(offsetof(PyDictKeysObject, dk_log2_size) % 8 == 0);
static_assert(offsetof(PyDictKeysObject, dk_usable) == offsetof(PyDictKeysObject, dk_log2_size) + 8);

/// A table with the same entries as before and no more of them has the same keys. In a split table the order is stored
/// beside the values.
bool dict_key_words(PyObject* object, Words& words, Owned<>& keys) {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  words.push_back(dict_size_word(object));
  if (dict->ma_values) Values(dict->ma_values).order_words(words);
  for (Py_ssize_t i = 0; i < dict->ma_keys->dk_nentries; ++i) {
    PyObject** value = value_slot(dict, i);
    if (!*value) continue;
    PyObject** key = key_of_value(dict, value);
    if (!is_plain_key(*key)) return false;
    words.push_back(word(key));
    if (!DK_IS_UNICODE(dict->ma_keys)) words.push_back(word(&general_entries(dict->ma_keys)[i].me_hash));
  }
  if (is_ordered_dict(object)) ordered_dict_words(object, words);
  keys = Owned<>::steal(PyDict_Keys(object));
  if (!keys) PyErr_Clear();
  return static_cast<bool>(keys);
}

PyObject** dict_key_address(PyObject* object, PyObject* key) {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  PyObject** value = dict_value_address(object, key);
  return value ? key_of_value(dict, value) : nullptr;
}

PyObject** dict_entry_address(PyObject* object, Py_ssize_t index) {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  if (index < 0 || index >= dict->ma_used) return nullptr;
  if (dict->ma_values) return value_slot(dict, Values(dict->ma_values).index_of_nth(index));
  for (Py_ssize_t i = 0; i < dict->ma_keys->dk_nentries; ++i) {
    PyObject** value = value_slot(dict, i);
    if (*value && index-- == 0) return value;
  }
  return nullptr;
}

PyObject* ordered_dict_key(PyObject* dict, Py_ssize_t index) {
  const layout::ODictNode* node = reinterpret_cast<layout::ODict*>(dict)->first;
  for (; node && index > 0; --index) node = node->next;
  return node ? node->key : nullptr;
}

PyObject* type_lookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

unsigned type_tag(PyTypeObject* type) {
  if (!type->tp_version_tag) {
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);  // assigns a tag to the type and its bases
  }
  return type->tp_version_tag;
}

PyObject* token_part(PyObject* object, int part) {
  auto* token = reinterpret_cast<PyContextToken*>(object);
  if (part == 0) return reinterpret_cast<PyObject*>(token->tok_var);
  if (part == 1) return token->tok_oldval;
  auto* context = reinterpret_cast<PyObject*>(token->tok_ctx);
  return !token->tok_used && context == PyThreadState_Get()->context ? context : nullptr;
}

namespace {
#if GRAMME_PYTHON_VALUES_INSIDE
PyObject** managed_dict_address(PyObject* object) {
  return reinterpret_cast<PyObject**>(&_PyObject_ManagedDictPointer(object)->dict);
}
#elif GRAMME_PYTHON_VALUES_OR_DICT
PyObject** managed_dict_address(PyObject* object) {
  static PyObject* none = nullptr;
  PyDictOrValues* place = _PyObject_DictOrValuesPointer(object);
  return _PyDictOrValues_IsValues(*place) ? &none : reinterpret_cast<PyObject**>(place);
}
#else
PyObject** managed_dict_address(PyObject* object) { return _PyObject_ManagedDictPointer(object); }
#endif
}  // namespace

#if GRAMME_PYTHON_VALUES_INSIDE
bool has_inline_values(PyObject* object) {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES) && !*managed_dict_address(object) &&
         _PyObject_InlineValues(object)->valid;
}
const void* inline_word_address(PyObject* object) { return _PyObject_ManagedDictPointer(object); }
#elif GRAMME_PYTHON_VALUES_OR_DICT
bool has_inline_values(PyObject* object) {
  if (!has_managed_dict(Py_TYPE(object))) return false;
  const PyDictOrValues word = *_PyObject_DictOrValuesPointer(object);
  return _PyDictOrValues_IsValues(word) && _PyDictOrValues_GetValues(word);
}
const void* inline_word_address(PyObject* object) { return _PyObject_DictOrValuesPointer(object); }
#else
bool has_inline_values(PyObject* object) {
  return has_managed_dict(Py_TYPE(object)) && *values_address(object) != nullptr;
}
const void* inline_word_address(PyObject* object) { return values_address(object); }
#endif

PyObject** instance_dict_address(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (has_managed_dict(type)) return managed_dict_address(object);
  Py_ssize_t offset = type->tp_dictoffset;
  if (offset == 0) return nullptr;
  if (offset < 0) return _PyObject_GetDictPtr(object);  // after the items of a variable-sized object
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name) {
  DictKeys* keys = shared_keys(type);
  if (!keys || keys->dk_kind != DICT_KEYS_SPLIT || !PyUnicode_CheckExact(name)) return -1;
  return find_unicode(keys, name, unicode_hash(name));
}

PyObject* shared_key_at(PyTypeObject* type, Py_ssize_t index) {
  DictKeys* keys = shared_keys(type);
  return keys && index < keys->dk_nentries ? unicode_entries(keys)[index].me_key : nullptr;
}

Py_ssize_t inline_count(PyObject* object) { return inline_values(object).count(); }

int inline_insertion_order(PyObject* object, Py_ssize_t index) {
  return index < inline_count(object) ? inline_values(object).index_of_nth(index) : -1;
}

void inline_order_words(PyObject* object, Words& words) { inline_values(object).order_words(words); }

PyObject** inline_value_address(PyObject* object, Py_ssize_t index) { return inline_values(object).address(index); }

PyObject** instance_attribute_address(PyObject* object, PyObject* name) {
  if (has_inline_values(object)) {
    Py_ssize_t index = shared_key_index(Py_TYPE(object), name);
    PyObject** slot = index < 0 ? nullptr : inline_value_address(object, index);
    return slot && *slot ? slot : nullptr;
  }
  PyObject* dict = instance_dict_if_any(object);
  return dict ? dict_value_address(dict, name) : nullptr;
}

Lookup instance_attribute(PyObject* object, PyObject* name, PyObject** value) {
  *value = nullptr;
  if (has_inline_values(object)) {
    PyObject** slot = instance_attribute_address(object, name);
    if (slot) *value = *slot;
    return slot ? Lookup::Found : Lookup::Absent;
  }
  PyObject* dict = instance_dict_if_any(object);
  return dict ? dict_lookup(dict, name, value) : Lookup::Absent;
}

Py_ssize_t slot_offset(PyObject* descriptor, PyTypeObject* type) {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
  auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  bool fits = PyType_IsSubtype(type, member->d_common.d_type);
  return fits && member->d_member->type == T_OBJECT_EX ? member->d_member->offset : -1;
}

PyObject** deque_item_address(PyObject* object, Py_ssize_t index) {
  layout::Deque* deque = as_deque(object);
  if (index < 0 || index >= Py_SIZE(object)) return nullptr;
  Py_ssize_t position = deque->left_index + index;
  layout::DequeBlock* block = deque->left_block;
  for (; position >= layout::kDequeBlock; position -= layout::kDequeBlock) block = block->right;
  return &block->data[position];
}

namespace {
/// _abc.c's module state.
struct AbcState {
  PyTypeObject* data_type;
  unsigned long long registrations;
};

const uint64_t* find_abc_registrations() {
  Owned<> module = Owned<>::steal(import_module("_abc"));
  Owned<> token = Owned<>::steal(module ? PyObject_CallMethod(module.get(), "get_cache_token", nullptr) : nullptr);
  auto* state = token ? static_cast<AbcState*>(PyModule_GetState(module.get())) : nullptr;
  bool known = state && PyLong_AsUnsignedLongLong(token.get()) == state->registrations;
  PyErr_Clear();
  static_assert(sizeof(state->registrations) == sizeof(uint64_t));
  return known ? reinterpret_cast<const uint64_t*>(&state->registrations) : nullptr;
}
}  // namespace

bool is_thread_local(PyObject* object) {
  PyTypeObject* const type = once([] {
    Owned<> module = take(import_module("_thread"));
    return reinterpret_cast<PyTypeObject*>(take(PyObject_GetAttrString(module.get(), "_local")).release());
  });
  return PyObject_TypeCheck(object, type);
}

#if GRAMME_PYTHON_LOCAL_HAS_DICTS
PyObject* thread_dict(PyObject* local) {
  PyObject* key = PyThreadState_Get()->threading_local_key;
  PyObject* dicts = reinterpret_cast<layout::ThreadLocal*>(local)->dicts;
  return key && dicts ? PyDict_GetItem(dicts, key) : nullptr;
}
#else
PyObject* thread_dict(PyObject* local) {
  PyObject* of_thread = PyThreadState_GetDict();
  PyObject* key = reinterpret_cast<layout::ThreadLocal*>(local)->key;
  PyObject* held = of_thread ? PyDict_GetItem(of_thread, key) : nullptr;
  return held ? reinterpret_cast<layout::ThreadLocalDict*>(held)->dict : nullptr;
}
#endif

Owned<> subclasses(PyTypeObject* cls) {
  PyObject* const method = once([] {
    return take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__")).release();
  });
  return take(PyObject_CallOneArg(method, reinterpret_cast<PyObject*>(cls)));
}

#if GRAMME_PYTHON_STATIC_SUBCLASSES
namespace {
/// A static builtin type has an index in place of the pointer.
PyObject** static_subclasses_address(PyTypeObject* cls) {
  const size_t index = reinterpret_cast<size_t>(cls->tp_subclasses) - 1;
  auto& types = PyInterpreterState_Get()->types;
#if GRAMME_PYTHON_VALUES_OR_DICT
  return &types.builtins[index].tp_subclasses;
#else
  const bool of_core = index < std::size(types.builtins.initialized) && types.builtins.initialized[index].type == cls;
  return of_core ? &types.builtins.initialized[index].tp_subclasses
                 : &types.for_extensions.initialized[index].tp_subclasses;
#endif
}
}  // namespace

PyObject** subclasses_address(PyTypeObject* cls) {
  return cls->tp_flags & _Py_TPFLAGS_STATIC_BUILTIN ? static_subclasses_address(cls)
                                                    : reinterpret_cast<PyObject**>(&cls->tp_subclasses);
}
#else
PyObject** subclasses_address(PyTypeObject* cls) { return reinterpret_cast<PyObject**>(&cls->tp_subclasses); }
#endif

const uint64_t* abc_registrations() {
  return once([] { return find_abc_registrations(); });
}

}  // namespace gramme::cpython
