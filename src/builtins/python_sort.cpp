// Sorting, for sorted() and list.sort(), with CPython's comparisons in CPython's order.
#include <algorithm>
#include <functional>

#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/features.h"

namespace gramme::builtins {
namespace {

using value::Kind;

constexpr size_t kMostCompared = 64;  // CPython sorts more items by another algorithm

using Keyed = std::vector<std::pair<Value*, Value*>>;  // key, item

/// True for varying numbers and pairs of them. If there are few, each comparison becomes a guard.
bool varies(Trace& trace, Value* key) {
  Value* seen = trace.see(key);
  if (auto* number = value::as<value::Number>(seen)) return number->expr != nullptr;
  auto* tuple = value::as<value::Tuple>(seen);
  return tuple &&
         std::any_of(tuple->items.begin(), tuple->items.end(), [&](Value* item) { return varies(trace, item); });
}

/// Sorts constant keys by Python's own sort; false if some key is no constant.
bool sort_constants(Trace& trace, Keyed& keyed, bool reverse) {
  PyObject* const real_sorted = once([] { return real("builtins", "sorted"); });
  Owned<> keys = take(PyList_New(0)), order = take(PyList_New(0));
  for (size_t i = 0; i < keyed.size(); ++i) {
    Owned<> key = inert(trace, keyed[i].first);
    if (!key) return false;
    check(PyList_Append(keys.get(), key.get()));
    check(PyList_Append(order.get(), take(PyLong_FromSize_t(i)).get()));
  }
  Owned<> by_key = take(PyObject_GetAttrString(keys.get(), "__getitem__"));
  Owned<> names = take(Py_BuildValue("{sOsO}", "key", by_key.get(), "reverse", reverse ? Py_True : Py_False));
  Owned<> values = take(PyTuple_Pack(1, order.get()));
  PyObject* sorted = PyObject_Call(real_sorted, values.get(), names.get());
  if (!sorted) {  // compared one by one instead, to raise at the right place with the order then reached
    PyErr_Clear();
    return false;
  }
  Owned<> result = Owned<>::steal(sorted);
  Keyed before = keyed;
  for (size_t i = 0; i < keyed.size(); ++i) keyed[i] = before[PyLong_AsSize_t(PyList_GET_ITEM(sorted, i))];
  return true;
}

using Less = std::function<bool(size_t, size_t)>;  // true if the first key is less than the second

void reverse_part(Keyed& keyed, size_t from, size_t to) {
  std::reverse(keyed.begin() + static_cast<Py_ssize_t>(from), keyed.begin() + static_cast<Py_ssize_t>(to));
}

#if GRAMME_PYTHON_SORT_KNOWS_EQUALS
/// Reverses the descending run that begins with `length` descending items, keeping equal items in order; returns its
/// end.
size_t descending_run(Keyed& keyed, size_t length, const Less& less) {
  size_t equal = 0;  // items before the last one that equal it
  auto turn_equal = [&] {
    if (equal) reverse_part(keyed, length - equal - 1, length);
    equal = 0;
  };
  for (; length < keyed.size(); ++length) {
    if (less(length, length - 1))
      turn_equal();
    else if (less(length - 1, length))
      break;
    else
      ++equal;
  }
  turn_equal();
  reverse_part(keyed, 0, length);
  while (length < keyed.size() && !less(length, length - 1)) ++length;
  return length;
}

/// Sorts the run at the start of the list; returns its length.
size_t first_run(Keyed& keyed, const Less& less) {
  size_t length = 1;
  while (length < keyed.size() && !less(length, length - 1)) ++length;
  if (length == keyed.size()) return length;
  if (length > 1) {
    if (less(0, length - 1)) return length;
    reverse_part(keyed, 0, length);  // all equal: part of a descending run
  }
  return descending_run(keyed, length + 1, less);
}
#else
size_t first_run(Keyed& keyed, const Less& less) {
  size_t length = 2;
  const bool descending = less(1, 0);
  while (length < keyed.size() && less(length, length - 1) == descending) ++length;
  if (descending) reverse_part(keyed, 0, length);
  return length;
}
#endif

/// Sorts fewer than 64 items with the comparisons of list.sort: the initial run, then binary insertion.
void sort_few(Trace& trace, Keyed& keyed) {
  auto compared = [&](Value* a, Value* b) { return protocol::truth(trace, protocol::compare(trace, Py_LT, a, b)); };
  if (keyed.size() < 2) return;
  size_t sorted = first_run(keyed, [&](size_t a, size_t b) { return compared(keyed[a].first, keyed[b].first); });
  for (; sorted < keyed.size(); ++sorted) {
    auto pivot = keyed[sorted];
    size_t low = 0, high = sorted;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (compared(pivot.first, keyed[middle].first))
        high = middle;
      else
        low = middle + 1;
    }
    for (size_t i = sorted; i > low; --i) keyed[i] = keyed[i - 1];
    keyed[low] = pivot;
  }
}

}  // namespace

bool reverse_flag(Trace& trace, Value* reverse) {
  if (!reverse) return false;
  Value* seen = trace.see(reverse);
  bool whole = seen->kind == Kind::Constant && PyLong_Check(seen->object);
  if (!whole && seen->kind != Kind::Number) cannot(Reason::ArgumentKind, "sorting with a reverse that is not an int");
  return protocol::truth(trace, seen);
}

void sort_values(Trace& trace, std::vector<Value*>& items, Value* key, bool reverse) {
  if (is_none(trace, key)) key = nullptr;
  Keyed keyed;
  for (Value* item : items) keyed.emplace_back(key ? protocol::call(trace, key, {item}) : item, item);
  auto put_back = [&] {
    if (reverse) std::reverse(keyed.begin(), keyed.end());
    for (size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
  };
  const bool compares =
      keyed.size() < kMostCompared &&
      std::any_of(keyed.begin(), keyed.end(), [&](const auto& each) { return varies(trace, each.first); });
  if (!compares && sort_constants(trace, keyed, reverse)) {
    reverse = false;
    return put_back();
  }
  if (items.size() >= kMostCompared) cannot(Reason::OpaqueCallback, "sorting 64 or more items that compare themselves");
  if (reverse) std::reverse(keyed.begin(), keyed.end());  // and again at the end, so equal items keep their order
  try {
    sort_few(trace, keyed);
  } catch (const value::UserError&) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace gramme::builtins
