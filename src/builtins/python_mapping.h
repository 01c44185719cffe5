// The mapping that a dict method works on: a dict, the payload of a dict subclass, or an instance's attributes.
#pragma once
#include <optional>

#include "builtins/keys.h"

namespace gramme::builtins {

class Mapping {
 public:
  /// The mapping of a seen Dict, InstanceDict or Object with a Dict payload; nullopt for others.
  static std::optional<Mapping> of(Trace& trace, Value* seen);
  /// The mapping of a dict method's self; ends the segment if it is none.
  static Mapping self(Trace& trace, Value* self);

  /// For OrderedDict.update: stores items by `object[key] = item`.
  void store_through(Value* object) { itself_ = object; }
  Value* get(Value* key);  // null if missing; raises TypeError for unhashable keys
  void set(Value* key, Value* item);
  bool erase(Value* key);
  /// For methods that look a key up once: asked() calls the key's own __hash__ and __eq__; the *_asked functions do not
  /// call them again.
  Value* asked(Value* key);
  Value* get_asked(Value* key);
  void set_asked(Value* key, Value* item);
  bool erase_asked(Value* key);
  size_t size();
  void clear();
  std::vector<std::pair<Value*, Value*>> entries();

  value::Dict* dict() const { return dict_; }  // null for attributes
  Value* container() const { return dict_ ? static_cast<Value*>(dict_) : attributes_; }

 private:
  explicit Mapping(Trace& trace) : trace_(trace) {}
  PyObject* attribute_name(Value* key);
  KeyOf use() const;
  Value* itself_ = nullptr;  // if set, set() stores through its class

  Trace& trace_;
  value::Dict* dict_ = nullptr;
  value::InstanceDict* attributes_ = nullptr;
};

/// dict.update(*args, **keywords): mappings, iterables of pairs, keywords.
void update_mapping(Trace& trace, Mapping& into, Value* from, const Args& keywords);

}  // namespace gramme::builtins
