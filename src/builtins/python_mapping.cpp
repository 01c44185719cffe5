// Get, set, erase and iterate over the three kinds of mapping, and dict.update with everything it accepts.
#include "builtins/python_mapping.h"

#include "cpython/features.h"

namespace gramme::builtins {

using value::Dict;
using value::InstanceDict;
using value::Kind;
using value::Object;

std::optional<Mapping> Mapping::of(Trace& trace, Value* seen) {
  Mapping result(trace);
  result.dict_ = value::as<Dict>(seen);
  result.attributes_ = value::as<InstanceDict>(seen);
  if (auto* object = value::as<Object>(seen))
    if (Value* held = payload(trace, object)) result.dict_ = value::as<Dict>(held);
  return result.dict_ || result.attributes_ ? std::optional(result) : std::nullopt;
}

Mapping Mapping::self(Trace& trace, Value* self) {
  Value* seen = trace.see(self);
  if (auto found = of(trace, seen)) return *found;
  cannot(Reason::ArgumentKind, std::string("a method of dict called on ") + type_name(seen));
}

PyObject* Mapping::attribute_name(Value* key) {
  PyObject* name = trace_.constant_of(key);
  if (!name || !PyUnicode_CheckExact(name))
    cannot(Reason::ArgumentKind, "an instance's __dict__ with a key that is not a str");
  return name_argument(trace_, key);
}

Value* Mapping::asked(Value* key) {
  return dict_ ? protocol::key_in(trace_, dict_, key) : as_key(trace_, key, KeyOf::Dict);
}

KeyOf Mapping::use() const { return dict_ ? protocol::key_of(dict_) : KeyOf::Dict; }

Value* Mapping::get(Value* key) { return get_asked(as_key(trace_, key, use())); }

Value* Mapping::get_asked(Value* key) {
  if (dict_) return trace_.dict_get(dict_, key);
  return trace_.own_attribute(attributes_->owner, attribute_name(key));
}

void Mapping::set(Value* key, Value* item) {
  if (itself_) return protocol::set_item(trace_, itself_, key, item);
  set_asked(as_key(trace_, key, use()), item);
}

void Mapping::set_asked(Value* key, Value* item) {
  if (dict_) return trace_.dict_set(dict_, key, item);
  trace_.store_own_attribute(attributes_->owner, attribute_name(key), item);
}

bool Mapping::erase(Value* key) { return erase_asked(as_key(trace_, key, use())); }

bool Mapping::erase_asked(Value* key) {
  if (dict_) return trace_.dict_erase(dict_, key);
  PyObject* name = attribute_name(key);
  if (!trace_.own_attribute(attributes_->owner, name)) return false;
  trace_.store_own_attribute(attributes_->owner, name, nullptr);
  return true;
}

size_t Mapping::size() { return dict_ ? trace_.dict_size(dict_) : entries().size(); }

void Mapping::clear() {
  if (!dict_) {
    for (auto& [key, item] : entries()) erase(key);
    return;
  }
  trace_.load(dict_);
  trace_.will_change(dict_);
  dict_->entries.clear();
  dict_->rewritten = true;
}

std::vector<std::pair<Value*, Value*>> Mapping::entries() {
  std::vector<std::pair<Value*, Value*>> result;
  if (dict_) {
    trace_.load(dict_);
    dict_->entries.each([&](auto& entry) { result.emplace_back(entry.key, entry.value); });
    return result;
  }
  for (auto& [name, item] : trace_.all_attributes(attributes_->owner))
    if (item) result.emplace_back(trace_.constant(name), item);
  return result;
}

// ---- update

namespace {

/// True if dict.update copies the entries directly. A subclass must inherit iteration; a subclass of OrderedDict must
/// inherit reading too. `into_ordered`: OrderedDict.update does so only for an exact dict.
bool reads_like_dict(Trace& trace, Value* seen, bool into_ordered) {
  static PyObject* const kNames[] = {intern("__iter__"), intern("keys"), intern("__getitem__")};
  static PyObject* const kGetAttribute = intern("__getattribute__");
  auto* object = value::as<Object>(seen);
  auto* dict = value::as<Dict>(seen);
  if (dict && dict->type == &PyODict_Type) return !trace.own_attribute(dict, kNames[1]);  // before the method
  if (!object) return true;
  if (PyFunction_Check(trace.type_lookup(object->type, kGetAttribute)))
    cannot(Reason::OpaqueCallback, std::string("the keys of a ") + type_name(seen) + ", which finds attributes itself");
  bool direct = PyType_IsSubtype(object->type, &PyDict_Type) && !PyType_IsSubtype(object->type, &PyODict_Type);
  size_t asked = direct && !into_ordered ? 1 : 3;
  for (size_t i = 0; i < asked; ++i) {
    PyObject* found = trace.type_lookup(object->type, kNames[i]);
    if (!Py_IS_TYPE(found, &PyMethodDescr_Type) && !Py_IS_TYPE(found, &PyWrapperDescr_Type)) return false;
  }
  return true;
}

/// The two items of an element of dict([(key, value), …]). Since 3.14 the error has a note.
std::vector<Value*> pair_items(Trace& trace, Value* element, size_t at, bool ordered) {
  std::vector<Value*> pair;
  if (!raises(trace, PyExc_TypeError,
              [&] { pair = protocol::items_of(trace, protocol::get_iterator(trace, element)); }))
    return pair;
  if (ordered || GRAMME_PYTHON_TEXTS >= 14) cannot(Reason::ArgumentKind, "the error about what is no pair");
  protocol::raise(trace, PyExc_TypeError,
                  "cannot convert dictionary update sequence element #" + std::to_string(at) + " to a sequence");
}

void update_from_pairs(Trace& trace, Mapping& into, Value* iterable) {
  static PyObject* const variable = intern("value");  // name used by PyTorch's front end, which does this in Python
  Value* iterator = protocol::get_iterator(trace, iterable);
  for (size_t at = 0; Value* item = protocol::next(trace, iterator); ++at) {
    const bool ordered = into.dict() && PyType_IsSubtype(into.dict()->type, &PyODict_Type);
    std::vector<Value*> pair = pair_items(trace, item, at, ordered);
    if (pair.size() != 2 && ordered) cannot(Reason::ArgumentKind, "an OrderedDict of what are no pairs");
    if (pair.size() != 2)
      protocol::raise(trace, PyExc_ValueError,
                      "dictionary update sequence element #" + std::to_string(at) + " has length " +
                          std::to_string(pair.size()) + "; 2 is required");
    if (auto* tensor = trace.see_as<value::Tensor>(pair[1])) trace.scope().name_after(tensor, variable);
    into.set(pair[0], pair[1]);
  }
}

/// Updates from a user's mapping by its keys() and __getitem__.
void update_from_keys(Trace& trace, Mapping& into, Value* from, Value* keys) {
  Value* iterator = protocol::get_iterator(trace, protocol::call(trace, keys, {}));
  while (Value* key = protocol::next(trace, iterator)) into.set(key, protocol::get_item(trace, from, key));
}

}  // namespace

void update_mapping(Trace& trace, Mapping& into, Value* from, const Args& keywords) {
  static PyObject* const kKeys = intern("keys");
  Value* seen = from ? trace.see(from) : nullptr;
  auto mapping = seen ? Mapping::of(trace, seen) : std::nullopt;
  bool into_ordered = into.dict() && into.dict()->type == &PyODict_Type;
  if (mapping && reads_like_dict(trace, seen, into_ordered)) {
    for (auto& [key, item] : mapping->entries()) into.set(key, item);
  } else if (seen) {
    Value* keys = protocol::find_attribute(trace, seen, kKeys);
    keys ? update_from_keys(trace, into, seen, keys) : update_from_pairs(trace, into, seen);
  }
  for (size_t k = 0; k < keywords.keywords; ++k)
    into.set(trace.constant(keywords.names[k]), keywords[keywords.positional + k]);
}

}  // namespace gramme::builtins
