// What an object holds by name or index, read raw: no Python runs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "portable/path.h"

namespace gramme::portable {

/// In sys.modules, borrowed; null if it is not there or is no module.
PyObject* module_named(const std::string& name);
/// What the step leads to from the object; null if there is nothing.
Owned<> child(PyObject* object, const PathStep& step);
/// Where one may go on from the object of a module, with what is there: classes and functions of the module, and what
/// they are wrapped in.
std::vector<std::pair<PathStep, Owned<>>> children(PyObject* object, const std::string& module);

/// What an instance or a module has for itself under strs.
std::vector<std::pair<PathStep, Owned<>>> own_attributes(PyObject* object);

/// The str's text; empty if it is null, no str or has no UTF-8.
std::string text_or_empty(PyObject* text);
/// What the object says of where it comes from; empty if it says nothing.
std::string module_of(PyObject* object);

}  // namespace gramme::portable
