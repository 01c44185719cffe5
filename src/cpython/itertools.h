// Iterators of itertools that stand in their middle. Up to 3.13 they are put there by __setstate__, which they lost.
#pragma once
#include <Python.h>

namespace gramme::cpython {

/// C functions for a replay to call; borrowed, they live as long as the process. Nothing they do runs Python code.
///
/// (chain, (iterator of its iterables, the current one)), (takewhile or dropwhile, True), (accumulate, total so far)
PyObject* itertool_setter();
/// (source, saved items, index) -> a cycle: in its first pass over the source if the index is -1, else at the index of
/// the items.
PyObject* cycle_maker();

}  // namespace gramme::cpython
