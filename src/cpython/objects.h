// Reading Python objects by their layout: stamps, addresses and lookups that run no Python code.
//
//   uint64_t before = dict_version(d);                    // globally unique while the dict lives and is unchanged
//   Lookup found = dict_lookup(d, name, &value);          // never calls __eq__ or __hash__
//   PyObject* dict = instance_dict_if_any(object);        // never makes one
//
// All values returned are borrowed.
#pragma once
#include <Python.h>
#include <structmember.h>

#include <cstdint>
#include <vector>

#include "base/ref.h"
#include "cpython/layouts.h"

namespace gramme::cpython {

// ---- dicts

#if GRAMME_PYTHON_DICT_VERSIONS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // from 3.12 on
/// Rises with every change of keys or values of any dict; never given out twice. An equal stamp of a live dict means
/// equal content.
inline uint64_t dict_version(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
inline const uint64_t* dict_version_address(PyObject* dict) {
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}
#pragma GCC diagnostic pop
#endif

enum class Lookup : uint8_t {
  Absent,
  Found,
  NeedsPython,  // a key of the same hash would have to be compared by user code
};
/// True for an immutable builtin whose == and hash run no user code: str, int, float, bool, complex, bytes, None,
/// Ellipsis, a type or builtin function (compared by identity), a tuple (or one of a class that compares like it) or
/// frozenset of such.
bool is_inert_key(PyObject* key);
/// dict[key] for an inert key; runs no Python. `value` is null unless found.
Lookup dict_lookup(PyObject* dict, PyObject* key, PyObject** value);
/// Where the value found by dict_lookup is stored; null if absent. Valid until the dict's keys change.
PyObject** dict_value_address(PyObject* dict, PyObject* key);
/// The index-th entry in the dict's own order (for OrderedDict too this is the order of insertion, not its linked
/// list).
bool dict_entry(PyObject* dict, Py_ssize_t index, PyObject** key, PyObject** value);

// Evidence without the version: words that stay equal as long as what they stand for does. Read in this order, each
// only after the ones before it were found equal: an address in a dict's table is good as long as the table is.

using Words = std::vector<const uint64_t*>;
/// The dict has the table that it has now.
void dict_table_words(PyObject* dict, Words& words);
/// It has the keys that it has now, in this order, under these hashes. False if a key might be another object at the
/// same address: only those that `keys` holds from then on are certain not to be. An OrderedDict's own order is part.
bool dict_key_words(PyObject* dict, Words& words, Owned<>& keys);
/// It has as many entries as now.
inline const uint64_t* dict_size_word(PyObject* dict) {
  return reinterpret_cast<const uint64_t*>(&reinterpret_cast<PyDictObject*>(dict)->ma_used);
}
/// Where the key is stored that equals an inert key; null if there is none.
PyObject** dict_key_address(PyObject* dict, PyObject* key);
/// Where the index-th value in the dict's own order is stored; null past the end.
PyObject** dict_entry_address(PyObject* dict, Py_ssize_t index);

inline bool is_ordered_dict(PyObject* object) { return PyODict_Check(object); }
/// Stamp of an OrderedDict's order; to be compared together with the dict version.
inline const size_t* ordered_dict_state_address(PyObject* dict) {
  return &reinterpret_cast<layout::ODict*>(dict)->state;
}
/// The index-th key in the OrderedDict's order, null past the end. Linear.
PyObject* ordered_dict_key(PyObject* dict, Py_ssize_t index);

inline PyObject* const* default_factory_address(PyObject* defaultdict) {
  return &reinterpret_cast<layout::DefaultDict*>(defaultdict)->default_factory;
}

// ---- types

/// _PyType_Lookup: the raw object found along the MRO, no descriptor call; null if absent (no error set).
PyObject* type_lookup(PyTypeObject* type, PyObject* name);
/// meta.__new__(meta, name, bases, names) as type does it, but no __set_name__ and no __init_subclass__ is called. A
/// new reference; null with a Python error.
PyObject* make_type(PyTypeObject* meta, PyObject* name, PyObject* bases, PyObject* names);
/// The type whose tp_new makes the instances, if all below it are made by class statements: object or another type of
/// CPython's own, never changed. Null if an extension (pybind11, Cython, …) has a part in it: its instances hold what
/// only its own constructor fills in.
PyTypeObject* builtin_base(PyTypeObject* type);
/// What ABCMeta.__subclasscheck__ answers, whatever the metaclass of `cls` does besides: 1 or 0; -1 with an error set.
int is_abstract_subclass(PyObject* subclass, PyObject* cls);
/// The type's version, forcing one if it has none yet; 0 if the type cannot have one (then nothing may be concluded).
unsigned type_tag(PyTypeObject* type);
inline const unsigned* type_tag_address(PyTypeObject* type) { return &type->tp_version_tag; }
inline PyObject* const* type_address(PyObject* object) { return reinterpret_cast<PyObject* const*>(&object->ob_type); }

// ---- tuples

/// A new tuple, all of whose items are there, is tracked by the collector as one that CPython's evaluator makes.
inline void track_as_built([[maybe_unused]] PyObject* tuple) {
#if GRAMME_PYTHON_ATOMIC_TUPLES
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (PyObject_IS_GC(item) && (!PyTuple_CheckExact(item) || PyObject_GC_IsTracked(item))) return;
  }
  if (PyObject_GC_IsTracked(tuple)) PyObject_GC_UnTrack(tuple);
#endif
}

// ---- instance attributes
// An instance keeps its attributes inline (values in a fixed order, keys shared by the type), in a dict, or nowhere.
// vars(x) by anyone gives it a dict: a reader that recorded an inline value's address must then read anew.

inline bool has_managed_dict(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0; }
/// Address of the pointer to the instance dict (managed or at tp_dictoffset), or null if the type has none. The pointer
/// itself is null when no dict has been made.
PyObject** instance_dict_address(PyObject* object);
/// The instance's dict if it has been made; makes none.
inline PyObject* instance_dict_if_any(PyObject* object) {
  PyObject** address = instance_dict_address(object);
  return address ? *address : nullptr;
}
/// True if the attributes of this instance are stored inline now, and there is no dict.
bool has_inline_values(PyObject* object);
/// A word of an instance with a managed dict, which has none, that changes as soon as it has one. As long as it is the
/// same, inline values are where they are.
const void* inline_word_address(PyObject* object);
/// Where the attribute of that index is stored in an instance with inline values; null there if it has none.
PyObject** inline_value_address(PyObject* object, Py_ssize_t index);
/// Index of a name in the keys that the type's instances share, or -1. Indices are never reused for another name.
Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name);
/// The shared keys in order of index; null past the end.
PyObject* shared_key_at(PyTypeObject* type, Py_ssize_t index);
/// The order in which an instance with inline values got its attributes: index-th shared index, -1 past the end.
int inline_insertion_order(PyObject* object, Py_ssize_t index);
/// Number of attributes of an instance with inline values, and words that change when it gets or loses one.
Py_ssize_t inline_count(PyObject* object);
void inline_order_words(PyObject* object, Words& words);
/// The instance's own attribute, inline or in its dict: no class, no descriptor, no Python.
Lookup instance_attribute(PyObject* object, PyObject* name, PyObject** value);
/// Where that attribute is stored (a word of the values array or of the dict); null if absent.
PyObject** instance_attribute_address(PyObject* object, PyObject* name);

/// Offset of a __slots__ member in its instances if `descriptor` is one and fits objects of `type`; else -1.
Py_ssize_t slot_offset(PyObject* descriptor, PyTypeObject* type);
inline PyObject** slot_address(PyObject* object, Py_ssize_t offset) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

// ---- sets: the order in which a set is gone through depends on the places of its members, and so on its history

/// Gives a set, or a frozenset nobody else has, the members of another set in the same places; false with an error set.
bool place_members(PyObject* set, PyObject* like);
/// True if the sets have the same members, by `same`, in the same places.
bool same_places(PyObject* a, PyObject* b, bool (*same)(PyObject*, PyObject*));
/// The index-th member in the set's order, null past the end. Linear.
PyObject* set_member(PyObject* set, Py_ssize_t index);

// ---- functions, cells, methods

inline PyFunctionObject* as_function(PyObject* object) { return reinterpret_cast<PyFunctionObject*>(object); }
inline PyCodeObject* code_of(PyFunctionObject* function) {
  return reinterpret_cast<PyCodeObject*>(function->func_code);
}
/// True if Python code runs when its annotations are asked for.
inline bool makes_annotations([[maybe_unused]] PyObject* function) {
#if GRAMME_PYTHON_ANNOTATE
  const PyFunctionObject* of = as_function(function);
  return !of->func_annotations && of->func_annotate && of->func_annotate != Py_None;
#else
  return false;
#endif
}
inline PyObject* builtins_of(PyFunctionObject* function) { return function->func_builtins; }
inline PyObject* const* cell_address(PyObject* cell) { return &reinterpret_cast<PyCellObject*>(cell)->ob_ref; }

inline layout::Partial* as_partial(PyObject* object) { return reinterpret_cast<layout::Partial*>(object); }
inline PyObject* proxy_mapping(PyObject* proxy) { return reinterpret_cast<layout::MappingProxy*>(proxy)->mapping; }

// ---- context variables

/// 0: its variable; 1: what that held before; 2: the thread's context, if the token is good in it. Null if there is
/// none.
PyObject* token_part(PyObject* token, int part);
/// The count that every registration with an abstract base class raises; null if it is not where it is expected.
const uint64_t* abc_registrations();
/// type.__subclasses__(cls), whatever the metaclass says: a list.
Owned<> subclasses(PyTypeObject* cls);
/// The address of the dict of subclasses, which changes when they do; it holds null as long as there were none.
PyObject** subclasses_address(PyTypeObject* cls);

// ---- threading.local

bool is_thread_local(PyObject* object);
/// Its attributes in the current thread, borrowed; null as long as the thread did not ask for one.
PyObject* thread_dict(PyObject* local);

// ---- iterators of lists

inline layout::ListIterator* as_list_iterator(PyObject* object) {
  return reinterpret_cast<layout::ListIterator*>(object);
}
inline Py_ssize_t* list_iterator_position(PyObject* object) { return &as_list_iterator(object)->position; }
inline PyObject** list_iterator_list(PyObject* object) { return &as_list_iterator(object)->list; }

// ---- deques

inline layout::Deque* as_deque(PyObject* object) { return reinterpret_cast<layout::Deque*>(object); }
/// Address of the index-th item; null past the end. Constant time per block of 64.
PyObject** deque_item_address(PyObject* deque, Py_ssize_t index);

}  // namespace gramme::cpython
