// Reads what an object holds by name or index, without running Python.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "portable/path.h"

namespace gramme::portable {

/// The module in sys.modules, borrowed; null if there is none, or it is another object.
PyObject* module_named(const std::string& name);
/// The object at the end of one step; null if there is none.
Owned<> child(PyObject* object, const PathStep& step);
/// The possible steps from an object of a module, with the objects they lead to: classes and functions of the module,
/// and their wrappers.
std::vector<std::pair<PathStep, Owned<>>> children(PyObject* object, const std::string& module);

/// The own attributes of an instance or a module with str names.
std::vector<std::pair<PathStep, Owned<>>> own_attributes(PyObject* object);

/// The str's text; empty if it is null, no str or has no UTF-8.
std::string text_or_empty(PyObject* text);
/// The name of the module that the object states as its own; empty if it states none.
std::string module_of(PyObject* object);

}  // namespace gramme::portable
