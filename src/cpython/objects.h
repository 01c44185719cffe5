// Reading Python objects by their layout: stamps, addresses and lookups that run no Python code. One folder per
// version.
//
//   uint64_t before = dict_version(d);                    // globally unique while the dict lives and is unchanged
//   Lookup found = dict_lookup(d, name, &value);          // never calls __eq__ or __hash__
//   PyObject* dict = instance_dict_if_any(object);        // never makes one
//
// All values returned are borrowed.
#pragma once
#include "cpython/features.h"

#if GRAMME_PYTHON_IS_311
#include "cpython/v311/objects.h"
#else
#error "no folder of src/cpython for this version of Python"
#endif
