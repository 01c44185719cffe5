// The C functions of heapq and bisect, with the same comparisons in the same order.
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using value::List;

bool less(Trace& trace, Value* a, Value* b) { return protocol::truth(trace, protocol::compare(trace, Py_LT, a, b)); }

// ---- heapq; a max-heap is a heap under the reversed order

template <bool max>
bool before(Trace& trace, Value* a, Value* b) {
  return max ? less(trace, b, a) : less(trace, a, b);
}

void expect_size(Trace& trace, List* heap, size_t size) {
  if (heap->items().size() != size) protocol::raise(trace, PyExc_RuntimeError, "list changed size during iteration");
}

template <bool max>
void sift_down(Trace& trace, List* heap, size_t start, size_t at) {
  size_t size = heap->items().size();
  while (at > start) {
    size_t parent = (at - 1) >> 1;
    bool rises = before<max>(trace, heap->items()[at], heap->items()[parent]);
    expect_size(trace, heap, size);
    if (!rises) return;
    std::swap(heap->items()[at], heap->items()[parent]);
    at = parent;
  }
}

/// The smaller child moves up until the item is a leaf, then the item moves up to its place.
template <bool max>
void sift_up(Trace& trace, List* heap, size_t at) {
  size_t size = heap->items().size(), start = at;
  while (at < size >> 1) {
    size_t child = 2 * at + 1;
    if (child + 1 < size) {
      bool first = before<max>(trace, heap->items()[child], heap->items()[child + 1]);
      expect_size(trace, heap, size);
      child += !first;
    }
    std::swap(heap->items()[at], heap->items()[child]);
    at = child;
  }
  sift_down<max>(trace, heap, start, at);
}

List* heap_argument(Trace& trace, Value* heap) {
  if (trace.see(heap)->kind != value::Kind::List) cannot(Reason::ArgumentKind, "a heap that is not a list");
  return changing_list(trace, heap);
}

template <bool max>
Value* heapify(Trace& trace, const Args& args) {
  auto [given] = positional<1>(args, 1);
  List* heap = heap_argument(trace, given);
  for (size_t i = heap->items().size() / 2; i-- > 0;) sift_up<max>(trace, heap, i);
  return trace.none();
}

template <bool max>
Value* push(Trace& trace, const Args& args) {
  auto [given, item] = positional<2>(args, 2);
  List* heap = heap_argument(trace, given);
  heap->items().push_back(item);
  sift_down<max>(trace, heap, 0, heap->items().size() - 1);
  return trace.none();
}

template <bool max>
Value* pop(Trace& trace, const Args& args) {
  auto [given] = positional<1>(args, 1);
  List* heap = heap_argument(trace, given);
  if (heap->items().empty()) protocol::raise(trace, PyExc_IndexError, "index out of range");
  Value* result = heap->items().back();
  heap->items().pop_back();
  if (heap->items().empty()) return result;
  std::swap(result, heap->items()[0]);
  sift_up<max>(trace, heap, 0);
  return result;
}

template <bool max>
Value* replace(Trace& trace, const Args& args) {
  auto [given, item] = positional<2>(args, 2);
  List* heap = heap_argument(trace, given);
  if (heap->items().empty()) protocol::raise(trace, PyExc_IndexError, "index out of range");
  Value* result = std::exchange(heap->items()[0], item);
  sift_up<max>(trace, heap, 0);
  return result;
}

template <bool max>
Value* push_and_pop(Trace& trace, const Args& args) {
  auto [given, item] = positional<2>(args, 2);
  auto* seen = trace.see_as<List>(given);
  if (seen && (seen->items().empty() || !before<max>(trace, seen->items()[0], item))) return item;
  return replace<max>(trace, args);
}

// ---- bisect

/// The position of x: after equal items (right) or before them.
template <bool right>
Py_ssize_t place(Trace& trace, Value* sequence, Value* x, Value* lo, Value* hi, Value* key) {
  Py_ssize_t low = lo ? protocol::index(trace, lo) : 0;
  if (low < 0) protocol::raise(trace, PyExc_ValueError, "lo must be non-negative");
  Py_ssize_t high = is_none(trace, hi) ? protocol::length(trace, sequence) : protocol::index(trace, hi);
  while (low < high) {
    Py_ssize_t middle = low + (high - low) / 2;
    Value* item = protocol::get_item(trace, sequence, trace.integer(middle));
    if (!is_none(trace, key)) item = protocol::call(trace, key, {item});
    bool behind = right ? !less(trace, x, item) : less(trace, item, x);
    (behind ? low : high) = behind ? middle + 1 : middle;
  }
  return low;
}

template <bool right>
Value* bisect(Trace& trace, const Args& args) {
  auto [sequence, x, lo, hi, key] = bind(args, 2, {"a", "x", "lo", "hi", "key"});
  return trace.integer(place<right>(trace, sequence, x, lo, hi, key));
}

template <bool right>
Value* insort(Trace& trace, const Args& args) {
  auto [sequence, x, lo, hi, key] = bind(args, 2, {"a", "x", "lo", "hi", "key"});
  Value* wanted = is_none(trace, key) ? x : protocol::call(trace, key, {x});
  Value* at = trace.integer(place<right>(trace, sequence, wanted, lo, hi, key));
  static PyObject* const kInsert = intern("insert");
  protocol::call_method(trace, sequence, kInsert, {at, x});
  return trace.none();
}

}  // namespace

void register_heap() {
  add_rows("_heapq", Takes::Asked,
           {
               {"heapify", &heapify<false>},
               {"_heapify_max", &heapify<true>},
               {"heappush", &push<false>},
               {"heappop", &pop<false>},
               {"_heappop_max", &pop<true>},
               {"heapreplace", &replace<false>},
               {"_heapreplace_max", &replace<true>},
               {"heappushpop", &push_and_pop<false>},
               // since 3.14
               {"heapify_max", &heapify<true>},
               {"heappush_max", &push<true>},
               {"heappop_max", &pop<true>},
               {"heapreplace_max", &replace<true>},
               {"heappushpop_max", &push_and_pop<true>},
           });
  add_rows("_bisect", Takes::Plain,
           {
               {"bisect_left", &bisect<false>},
               {"bisect_right", &bisect<true>},
               {"insort_left", &insort<false>},
               {"insort_right", &insort<true>},
           });
}

}  // namespace gramme::builtins
