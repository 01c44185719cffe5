// Iterators that existed before the capture: their items are read without advancing them, and replay advances them.
#include "cpython/iterators.h"

#include <algorithm>

#include "trace/capture.h"

namespace gramme::trace {

using namespace value;
using cpython::Iterates;
using SK = source::Kind;

namespace {

[[noreturn]] void cannot_advance(const Iterator* iterator) {
  cannot(Reason::IteratorLive, Py_TYPE(iterator->object)->tp_name);
}

/// True if the capture has changed the iterator's container, so that its items differ from what is read now.
bool is_changed(Value* through) {
  auto* dict = as<Dict>(through);
  return through->kind != Kind::Iterator && (through->written || (dict && dict->hidden));
}

/// True if the container is of a kind whose iteration is known.
bool is_known(Value* through, Iterates what) {
  switch (what) {
    case Iterates::List:
    case Iterates::Backwards:
      return through->kind == Kind::List;
    case Iterates::Keys:
    case Iterates::Values:
    case Iterates::Items: {
      auto* dict = as<Dict>(through);
      return dict && dict->type == &PyDict_Type;
    }
    case Iterates::Enumerate:
      return through->kind == Kind::Iterator;
    case Iterates::Tuple:
    case Iterates::Range:
    case Iterates::Zip:
    case Iterates::Unknown:
      break;
  }
  return false;
}

}  // namespace

/// Records the iterator with its container. Not for tuples, whose items cannot change.
void Capture::open(Iterator* iterator) {
  const Iterates what = cpython::iterates(iterator->object);
  if (!iterator->parts.empty() || iterator->done || what == Iterates::Tuple || what == Iterates::Range) return;
  const Source* source = pool->child(iterator->source, SK::IteratorOf);
  PyObject** address = cpython::iterated_address(iterator->object);
  if (!address) cannot_advance(iterator);
  if (!*address) {
    facts.add_absent(source);
    iterator->done = true;
    return;
  }
  Value* through = see(wrap(*address, source));
  if (what != Iterates::Zip) {
    if (!is_known(through, what)) cannot_advance(iterator);
    iterator->parts = {through};
    return;
  }
  for (Value* part : static_cast<Tuple*>(through)->items) {
    if (see(part)->kind != Kind::Iterator) cannot_advance(iterator);
    iterator->parts.push_back(see(part));
  }
}

/// The item that the real iterator will return next.
Value* Capture::take_ahead(Iterator* iterator) {
  for (Value* through : iterator->parts)
    if (is_changed(through)) cannot_advance(iterator);
  const cpython::Ahead ahead = cpython::look_ahead(iterator->object, iterator->index);
  if (ahead.next == cpython::Next::Unknown) cannot_advance(iterator);
  note_content(iterator);
  const Source* source = pool->child(iterator->source, SK::Ahead, iterator->index);
  if (ahead.next == cpython::Next::End) {
    facts.add_absent(source);
    iterator->done = true;
    return nullptr;
  }
  Value* item = found_at(ahead.item, source);
  if (ahead.value)
    item = tuple({item, found_at(ahead.value, pool->child(iterator->source, SK::ValueAhead, iterator->index))});
  ++iterator->index;
  return item;
}

bool Capture::is_at_end(Iterator* iterator) const {
  if (iterator->done) return true;
  const Iterates what = cpython::iterates(iterator->object);
  if (what != Iterates::Enumerate && what != Iterates::Zip)
    return cpython::look_ahead(iterator->object, iterator->index).next == cpython::Next::End;
  return std::any_of(iterator->parts.begin(), iterator->parts.end(),
                     [&](Value* part) { return is_at_end(static_cast<Iterator*>(part)); });
}

Value* Capture::next_of_live(Iterator* iterator) {
  iterates_ = true;
  open(iterator);
  if (iterator->done) return nullptr;
  const Iterates what = cpython::iterates(iterator->object);
  auto next_of = [&](Value* part) { return next_of_live(static_cast<Iterator*>(part)); };
  if (what == Iterates::Enumerate) {
    Value* item = next_of(iterator->parts[0]);
    return item ? tuple({take_ahead(iterator), item}) : nullptr;
  }
  if (what != Iterates::Zip) return take_ahead(iterator);
  std::vector<Value*> items;
  for (Value* part : iterator->parts) {
    items.push_back(next_of(part));
    if (!items.back()) return nullptr;
  }
  return items.empty() ? nullptr : tuple(std::move(items));
}

}  // namespace gramme::trace
