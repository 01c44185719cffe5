// Reads Python objects by their layout: version stamps, addresses and look-ups that run no Python code.
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
/// A number that changes with each change of a dict and is unique among all dicts. An equal stamp of a live dict means
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
/// The index-th entry in the dict's own order. For an OrderedDict too that is the order of insertion, not of its linked
/// list.
bool dict_entry(PyObject* dict, Py_ssize_t index, PyObject** key, PyObject** value);

// Evidence without a version stamp: words that stay equal while the fact that they stand for holds. They are read in
// this order, each only if those before were equal: an address in a dict's table is valid only as long as the table.

using Words = std::vector<const uint64_t*>;
/// Evidence that the dict still has its present table.
void dict_table_words(PyObject* dict, Words& words);
/// Evidence that the dict has its present keys, in this order, under these hashes; for an OrderedDict also its own
/// order. `keys` holds the keys, so that no other object can take their addresses. False if that cannot be made sure.
bool dict_key_words(PyObject* dict, Words& words, Owned<>& keys);
/// Evidence that the dict has its present number of entries.
inline const uint64_t* dict_size_word(PyObject* dict) {
  return reinterpret_cast<const uint64_t*>(&reinterpret_cast<PyDictObject*>(dict)->ma_used);
}
/// The address of the stored key that equals an inert key; null if there is none.
PyObject** dict_key_address(PyObject* dict, PyObject* key);
/// The address of the index-th value in the dict's own order; null past the end.
PyObject** dict_entry_address(PyObject* dict, Py_ssize_t index);

inline bool is_ordered_dict(PyObject* object) { return PyODict_Check(object); }
/// The stamp of an OrderedDict's order, which must be compared together with the dict's version.
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
/// meta.__new__(meta, name, bases, names) without calling __set_name__ and __init_subclass__. A new reference; null
/// with a Python error.
PyObject* make_type(PyTypeObject* meta, PyObject* name, PyObject* bases, PyObject* names);
/// The builtin type (object or another of CPython's own) whose tp_new makes the instances, if all classes derived from
/// it are made by class statements. Null if an extension (pybind11, Cython, …) takes part: its instances have state
/// that only its own constructor sets.
PyTypeObject* builtin_base(PyTypeObject* type);
/// The result of ABCMeta.__subclasscheck__, without overrides in the metaclass of `cls`: 1 or 0; -1 with an error set.
int is_abstract_subclass(PyObject* subclass, PyObject* cls);
/// The type's version tag, assigned now if it has none. 0 if it cannot have one; nothing may be concluded then.
unsigned type_tag(PyTypeObject* type);
inline const unsigned* type_tag_address(PyTypeObject* type) { return &type->tp_version_tag; }
inline PyObject* const* type_address(PyObject* object) { return reinterpret_cast<PyObject* const*>(&object->ob_type); }

// ---- tuples

/// Tracks a new, complete tuple for the collector as CPython's evaluator does.
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
// An instance keeps its attributes inline (values only, with keys shared by the type), in a dict, or nowhere. vars(x)
// gives it a dict; a reader with a recorded address of an inline value must then read anew.

inline bool has_managed_dict(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0; }
/// The address of the pointer to the instance dict (managed or at tp_dictoffset); null if the type has none. The
/// pointer is null while no dict has been made.
PyObject** instance_dict_address(PyObject* object);
/// The instance's dict; null if none has been made. Never makes one.
inline PyObject* instance_dict_if_any(PyObject* object) {
  PyObject** address = instance_dict_address(object);
  return address ? *address : nullptr;
}
/// True if this instance's attributes are stored inline now and it has no dict.
bool has_inline_values(PyObject* object);
/// For an instance whose managed dict has not been made: a word that changes when it is made. While it is the same,
/// inline values do not move.
const void* inline_word_address(PyObject* object);
/// The address of the attribute with this index in an instance with inline values; null is stored there if it has none.
PyObject** inline_value_address(PyObject* object, Py_ssize_t index);
/// Index of a name in the keys that the type's instances share, or -1. Indices are never reused for another name.
Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name);
/// The shared key with this index; null past the end.
PyObject* shared_key_at(PyTypeObject* type, Py_ssize_t index);
/// The shared index of the attribute that an instance with inline values got index-th; -1 past the end.
int inline_insertion_order(PyObject* object, Py_ssize_t index);
/// The number of attributes of an instance with inline values, and words that change when it gets or loses one.
Py_ssize_t inline_count(PyObject* object);
void inline_order_words(PyObject* object, Words& words);
/// The instance's own attribute, inline or in its dict, without class or descriptors. Runs no Python.
Lookup instance_attribute(PyObject* object, PyObject* name, PyObject** value);
/// The address of that attribute, in the values array or in the dict; null if absent.
PyObject** instance_attribute_address(PyObject* object, PyObject* name);

/// Offset of a __slots__ member in its instances if `descriptor` is one and fits objects of `type`; else -1.
Py_ssize_t slot_offset(PyObject* descriptor, PyTypeObject* type);
inline PyObject** slot_address(PyObject* object, Py_ssize_t offset) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

// ---- sets: their order of iteration depends on the places of members, and so on their history

/// Fills a set, or a frozenset that nothing else refers to, with the members of another set in the same places. False
/// with an error set.
bool place_members(PyObject* set, PyObject* like);
/// True if the sets have the same members (compared by `same`) in the same places.
bool same_places(PyObject* a, PyObject* b, bool (*same)(PyObject*, PyObject*));
/// The index-th member in the set's order, null past the end. Linear.
PyObject* set_member(PyObject* set, Py_ssize_t index);

// ---- functions, cells, methods

inline PyFunctionObject* as_function(PyObject* object) { return reinterpret_cast<PyFunctionObject*>(object); }
inline PyCodeObject* code_of(PyFunctionObject* function) {
  return reinterpret_cast<PyCodeObject*>(function->func_code);
}
/// True if reading the function's annotations runs Python code.
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

/// Part 0: the token's variable. 1: its earlier value. 2: the thread's context, if the token is valid in it. Null if
/// there is none.
PyObject* token_part(PyObject* token, int part);
/// The counter of registrations with abstract base classes; null if it is not in the expected place.
const uint64_t* abc_registrations();
/// type.__subclasses__(cls), without overrides in the metaclass: a list.
Owned<> subclasses(PyTypeObject* cls);
/// The address of the pointer to the dict of subclasses, which changes with them; the pointer is null before the first.
PyObject** subclasses_address(PyTypeObject* cls);

// ---- threading.local

bool is_thread_local(PyObject* object);
/// The object's dict in the current thread, borrowed; null if the thread has not used the object yet.
PyObject* thread_dict(PyObject* local);

// ---- iterators of lists

inline layout::ListIterator* as_list_iterator(PyObject* object) {
  return reinterpret_cast<layout::ListIterator*>(object);
}
inline Py_ssize_t* list_iterator_position(PyObject* object) { return &as_list_iterator(object)->position; }
inline PyObject** list_iterator_list(PyObject* object) { return &as_list_iterator(object)->list; }

// ---- deques

inline layout::Deque* as_deque(PyObject* object) { return reinterpret_cast<layout::Deque*>(object); }
/// The address of the index-th item; null past the end. Takes a step for each block of 64 items.
PyObject** deque_item_address(PyObject* deque, Py_ssize_t index);

}  // namespace gramme::cpython
