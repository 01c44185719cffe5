// Constants as bytes: equal for the same constant in every process, different for any other.
//
//   std::string bytes;
//   if (encode(object, bytes)) Owned<> again = decode(bytes);
//
// 1, 1.0 and True differ, so do 0.0 and -0.0, and two NaNs of other bits; members of a frozenset are in the order of
// their bytes, since the set's own depends on hashes. Runs no Python.
#pragma once
#include <string>
#include <string_view>

#include "base/ref.h"

namespace gramme::portable {

/// Appends the bytes. False, with nothing said of what was appended, if it is no constant or one too deep: those of
/// source/constant.h but NumPy's scalars, and torch's dtypes, layouts, memory formats, devices and Sizes of ints.
bool encode(PyObject* object, std::string& bytes);
/// A constant of its own; throws PythonError (ValueError) if the bytes are not of one. Names are interned.
Owned<> decode(std::string_view bytes);

/// Bytes preceded by their number, so that two fields never run into each other.
void add_field(std::string& bytes, std::string_view field);
/// A str's characters, each with its whole number: also of lone surrogates.
std::string characters(PyObject* text);

}  // namespace gramme::portable
