// Encodes constants as bytes that are equal in every process, and different for different constants.
//
//   std::string bytes;
//   if (encode(object, bytes)) Owned<> again = decode(bytes);
//
// 1, 1.0 and True differ; so do 0.0 and -0.0, and NaNs with different bits. Members of a frozenset are sorted by their
// bytes, since a set's own order depends on hashes. Runs no Python.
#pragma once
#include <string>
#include <string_view>

#include "base/ref.h"

namespace gramme::portable {

/// Appends the bytes of a constant: those of source/constant.h except NumPy's scalars, and torch's dtypes, layouts,
/// memory formats, devices and Sizes of ints. False if it is none or nested too deeply; `bytes` is undefined then.
bool encode(PyObject* object, std::string& bytes);
/// A new constant; throws PythonError (ValueError) for other bytes. Identifiers are interned.
Owned<> decode(std::string_view bytes);

/// Appends bytes preceded by their length, so that fields cannot be confused.
void add_field(std::string& bytes, std::string_view field);
/// A str's code points, four bytes each: lone surrogates too.
std::string characters(PyObject* text);

}  // namespace gramme::portable
