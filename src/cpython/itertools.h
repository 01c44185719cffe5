// Makes iterators of itertools that are part of the way through: on 3.11 by __setstate__, later by layout, since
// __setstate__ is deprecated and then removed.
#pragma once
#include <Python.h>

namespace gramme::cpython {

/// C functions for replay; borrowed, and alive as long as the process. They run no Python code.
///
/// (chain, (iterator of its iterables, the current one)), (takewhile or dropwhile, True), (accumulate, total so far)
PyObject* itertool_setter();
/// (source, saved items, index) -> a cycle: in its first pass over the source if the index is -1, else at that index of
/// the saved items.
PyObject* cycle_maker();

}  // namespace gramme::cpython
