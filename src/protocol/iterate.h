// Iterators made in a capture: the fields of value::Iterator for each sort, and how to make one. `next` (protocol.h)
// advances all sorts.
//
//   Iterator* it = make_iterator(trace, Iterator::Enumerate, {get_iterator(trace, iterable)});
//   it->index = start;
//
// "iterator" below means a value that `next` accepts; call get_iterator on the program's values first. Other fields
// keep their defaults. `done` is set at the end, and next() on a done iterator returns null at once.
//
//   sort        parts                                     index                     stop               increment
//   Sequence    [0] List, Tuple, Deque, str, bytes or an  next position             -                  -
//               Object with __getitem__, read live
//   Range       -                                         next value                end, as range's    step
//   Entries     [0] Dict, Set, InstanceDict or View;      position in the table     stamp of the keys  1, or -1:
//   reversed
//               use entries_iterator()
//   Reversed    [0] List, Tuple, Deque, str, bytes or an  next position, from       -                  -
//               Object with __getitem__                   length - 1 down to 0
//   Enumerate   [0] iterator                              next number               -                  -
//   Zip         iterators                                 -                         1: strict          -
//   Map         [0] function, [1…] iterators              -                         -                  -
//   Filter      [0] function or None, [1] iterator        -                         1: filterfalse     -
//   Chain       [0] iterator over the iterables           -                         -                  -
//   Repeat      [0] the value                             -                         times, -1: forever -
//   Count       [0] next value, [1] step                  -                         -                  -
//   Cycle       [0] iterator, [1…] items seen so far      -                         -                  -
//   Islice      [0] iterator                              next one wanted (start)   end, -1: none      step
//   StarMap     [0] function, [1] iterator                -                         -                  -
//   Accumulate  [0] function or None (+), [1] iterator;   1: `initial` was given    -                  -
//               [2] the initial value if there is one
//   TakeWhile   [0] function, [1] iterator                -                         -                  -
//   DropWhile   [0] function, [1] iterator                -                         -                  -
//   CallUntil   [0] callable, [1] sentinel                -                         -                  -
//   Live        [0] what it goes through, once asked:     items taken               -                  -
//               List, Dict, Iterators
//   Other       whatever its step function wants          free                      free               id given by
//   add_step
#pragma once
#include "protocol/protocol.h"
#include "value/iterator_types.h"

namespace gramme::protocol {

value::Iterator* make_iterator(Trace& trace, value::Iterator::Sort sort, std::vector<Value*> parts);
/// iter() or, backwards, reversed() of a seen Dict, Set, InstanceDict or View.
value::Iterator* entries_iterator(Trace& trace, Value* container, bool backwards = false);
/// Ends the segment if an exhausted iterator's StopIteration may carry a value, taken from an inner iterator.
void refuse_stop_value(Trace& trace, value::Iterator* iterator);
/// The value that `yield from` takes from an iterator's StopIteration; any other exception is raised again.
Value* stop_value(Trace& trace, const value::UserError& error);
/// range(start, stop, step) with step not 0.
value::Iterator* range_iterator(Trace& trace, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step);
/// reversed(x): `__reversed__` of the user's class, or the sequence protocol; TypeError otherwise.
Value* reversed(Trace& trace, Value* object);

/// Advances an iterator of sort Other: the next value, or null at the end. For iterators known to one module only
/// (pairwise, groupby).
using Step = Value* (*)(Trace& trace, value::Iterator* iterator);
/// Registers a step function and its iterator's type; returns the id for `increment`. Call once per function, at
/// start-up.
Py_ssize_t add_step(Step step, value::IteratorType type);

}  // namespace gramme::protocol
