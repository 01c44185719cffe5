// What a dict method works on: a dict, what an instance of a dict's subclass holds, or the attributes of an instance.
#pragma once
#include <optional>

#include "builtins/keys.h"

namespace gramme::builtins {

class Mapping {
 public:
  /// The mapping of a seen Dict, InstanceDict or Object holding a Dict; none for others.
  static std::optional<Mapping> of(Trace& trace, Value* seen);
  /// The mapping of a dict method's self; ends the segment if it is none.
  static Mapping self(Trace& trace, Value* self);

  /// For OrderedDict.update: items are stored as `object[key] = item` says.
  void store_through(Value* object) { itself_ = object; }
  Value* get(Value* key);  // null if missing; raises TypeError for unhashable keys
  void set(Value* key, Value* item);
  bool erase(Value* key);
  /// For methods that look a key up once: its own __hash__ and __eq__ are asked by `asked`, and not again.
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
  Value* itself_ = nullptr;  // set() asks its class how items are stored

  Trace& trace_;
  value::Dict* dict_ = nullptr;
  value::InstanceDict* attributes_ = nullptr;
};

/// dict.update(*args, **keywords): mappings, iterables of pairs, keywords.
void update_mapping(Trace& trace, Mapping& into, Value* from, const Args& keywords);

}  // namespace gramme::builtins
