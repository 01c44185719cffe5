// What one capture knows of the program: its objects as values, what it read of them (facts) and what it wrote
// (effects).
//
//   Value* x = capture.wrap(object, capture.pool->local(0, name));   // Lazy: nothing recorded yet
//   Value* seen = capture.see(x);                                    // its kind, with guards
//
// A capture makes its values itself (trace/values.h). What it knows else lies in parts, each with a rule of its own;
// what is here joins several of them. Functions take the part that they need.
//
// A capture knows no graph: what belongs to one graph is a Scope, and the two together are a Trace (trace/trace.h).
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/extensions.h"
#include "effects/log.h"
#include "guards/fact_list.h"
#include "trace/classes.h"
#include "trace/confined.h"
#include "trace/exceptions.h"
#include "trace/inliner.h"
#include "trace/known_objects.h"
#include "trace/policy.h"
#include "trace/progress.h"
#include "trace/shapes.h"
#include "trace/values.h"
#include "trace/varying.h"

namespace gramme::trace {

class Capture : public Values {
 public:
  explicit Capture(const Policy& policy);

  const Policy& policy;
  const Contract& contract = policy.contract;
  meta::DataDependence data;  // which data-dependent values graphs may use; the program may change it
  Inliner* inliner = nullptr;

  // ---- parts; each has a header and tests of its own
  const std::shared_ptr<source::Pool> pool = std::make_shared<source::Pool>();
  guards::FactList facts{*pool};
  KnownObjects objects{*this, *pool};
  Progress progress{policy};
  Confinement confinement{*this};
  Classes classes{*this, objects, facts, confinement, *pool};
  Shapes shapes;
  Exceptions exceptions{*this, confinement, classes, shapes};
  VaryingNumbers numbers{policy, *this, facts, shapes, *pool};
  /// State that a higher room keeps with the capture, by type.
  template <class T>
  T& state() {
    return states_.get<T>();
  }

  // ---- values
  using Values::integer;
  Value* integer(shape::SymInt n) { return n.is_number() ? integer(*n.number()) : numbers.expression(n.expr()); }
  /// Decides the condition by the present values, and guards the answer.
  bool decide(shape::Expr condition) { return shapes.decide(condition, position()); }
  /// The present value of a size or stride, as a constant from now on.
  int64_t fixed(shape::SymInt n) { return n.is_number() ? *n.number() : shapes.fix(n.expr(), position()); }
  /// A builtin, type or module as a value, held by the segment; no guard (the caller has one, or it is immortal).
  Value* pinned(PyObject* object) { return objects.pinned(object); }
  /// The constant's object, or null for other values. Specialises a Number.
  PyObject* constant_of(Value* value);
  /// A real object equal to the value if it consists of constants only (tuples, lists, dicts, sets, slices of them),
  /// else null.
  Owned<> concrete(Value* value);
  /// The Python number that PyTorch's operators convert a NumPy scalar to; null if there is none.
  Value* python_number(Value* scalar);
  /// `a is b` for existing objects; guarded if both have sources.
  bool same(Value* a, Value* b);
  /// id(object): the same value for the same object, distinct from all other addresses asked for.
  Value* address(Value* object);
  void note_generator(value::Generator* generator) { generators_.push_back(generator); }
  const std::vector<value::Generator*>& generators() const { return generators_; }  // made in the capture

  // ---- state of existing objects, read through the log (state.cpp, containers.cpp)
  /// An instance's own attribute (from its dict, not from the class): the value or null; guarded.
  Value* own_attribute(Value* object, PyObject* name);                    // Object, Function, Partial, Dict, Tensor
  void store_own_attribute(Value* object, PyObject* name, Value* value);  // null deletes
  Value* slot_attribute(value::Object* object, PyObject* name);           // member descriptors
  void store_slot_attribute(value::Object* object, PyObject* name, Value* value);
  /// Attributes by name in InstanceDict order. For existing objects guards the key set.
  value::Attributes all_attributes(Value* object);
  Value* global(value::Namespace* names, PyObject* name);  // null if absent
  void store_global(value::Namespace* names, PyObject* name, Value* value);
  Value* cell_content(value::Cell* cell, value::Namespace* reader = nullptr);  // null if empty; reader: of who asks
  void store_cell(value::Cell* cell, Value* content);
  void store_dict(value::Cell* cell, value::Class* made);  // fills it with the dict of a class made in the capture
  /// The value under the key, read from the real dict if it is not known yet; null if missing.
  Value* dict_get(value::Dict* dict, Value* key);
  void dict_set(value::Dict* dict, Value* key, Value* value);
  bool dict_erase(value::Dict* dict, Value* key);
  /// Reads all entries, in order, into dict->entries.
  void load(value::Dict* dict);
  size_t dict_size(value::Dict* dict);
  /// Call before changing a container's content.
  void will_change(Value* container);
  /// The place-th item from the end (1 is the last) of a list of unguarded length; null if the length must be guarded.
  Value* item_from_end(value::List* list, size_t place);
  /// Call instead of will_change() if one item of a list or deque is replaced.
  void will_store_item(Value* sequence);
  /// What an existing list or deque held before its first change; null if it was never changed.
  const std::vector<Value*>* original_items(Value* container) const;
  /// The next item of an iterator that existed before (sort Live), read without advancing it; null at its end.
  Value* next_of_live(value::Iterator* iterator);
  /// True if the iterator is exhausted.
  bool is_at_end(value::Iterator* iterator) const;
  /// True if an existing iterator was asked for an item.
  bool iterates() const { return iterates_; }
  void describe(value::Function* function);  // fills code, defaults, closure of an existing function, guarded

  // ---- classes
  PyObject* type_lookup(PyTypeObject* type, PyObject* name) { return classes.lookup(type, name); }
  Value* type_attribute(PyTypeObject* type, PyObject* name) { return classes.attribute(type, name); }
  bool is_subtype(PyTypeObject* type, PyTypeObject* base) { return classes.is_subtype(type, base); }
  bool is_made(PyTypeObject* type) const { return classes.is_made(type); }
  /// See Classes::store.
  void store_class_attribute(value::Class* cls, PyObject* name, Value* value, PyObject* raw);

  // ---- effects
  const effects::Log& effects() const { return effects_; }
  /// Logs a write to (target, name) whose new state is kept in the target's value.
  void note_effect(effects::Kind kind, Value* target, PyObject* name) {
    confinement.changes(target);
    effects_.add(kind, target, name, moment());
  }
  /// Makes replay call the function. `result` stands for the value that it returns; what is rebuilt later may use it.
  void call_in_replay(PyObject* function, std::vector<Value*> operands, Value* result = nullptr) {
    if (confinement.any()) cannot(Reason::EffectInBody, "a call that replay makes");
    effects_.add_call(function, std::move(operands), moment(), result);
  }
  /// The same for a function that only counts something (effects::Log::add_quiet_call).
  void count_in_replay(PyObject* function, std::vector<Value*> operands) {
    if (confinement.any()) cannot(Reason::EffectInBody, "a call that replay makes");
    effects_.add_quiet_call(function, std::move(operands), moment());
  }

  // ---- where the capture stands
  const graph::Position* position() const { return inliner ? inliner->position() : nullptr; }
  /// See Inliner.
  void enter_opaque() {
    if (inliner) inliner->enter_opaque();
  }
  /// Number of steps begun; 0 before the first.
  size_t steps() const { return inliner ? inliner->steps() : 0; }
  /// Notes that the capture ends because the source holds nothing yet. The real call fills it, so later captures can
  /// continue.
  void refuses_without(const Source* source) { refuses_without_ = source; }
  const Source* refuses_without() const { return refuses_without_; }

 protected:
  /// Number of operations so far: the position of an effect in the graph.
  virtual size_t moment() const = 0;
  /// Called when a real tensor was looked into: it may become an input.
  virtual void found(value::Tensor* tensor) = 0;
  /// The number's value; guards what it was computed from, and turns it into a Constant. Null if it comes from tensor
  /// data.
  virtual PyObject* specialized_value(value::Number* number) = 0;

 private:
  Value* realize(PyObject* object, const Source* source) override;
  Value* adopt_held(Owned<> object) override;
  Value* found_at(PyObject* object, const Source* source);
  Value* realize_tuple(PyObject* object, const Source* source);
  Value* realize_list(PyObject* object, const Source* source);
  Value* realize_dict(PyObject* object, const Source* source);
  Value* default_factory(PyObject* defaultdict, const Source* source);
  Value* realize_set(PyObject* object, const Source* source);
  Value* realize_deque(PyObject* object, const Source* source);
  Value* realize_function(PyObject* object, const Source* source);
  Value* realize_c_function(PyObject* object, const Source* source);
  Value* realize_tensor(PyObject* object, const Source* source);
  Value* realize_object(PyObject* object, const Source* source);
  value::Dict* dict_payload(PyObject* object, const Source* source);
  value::List* list_payload(PyObject* object, const Source* source);
  void load_keys(value::Dict* dict, value::Table& into);
  Value* id_of_hook(PyObject* id, const Source* source);
  Value* as_key(Value* key);
  void refuse_late(Value* object, PyObject* name);
  void note_content(Value* container);
  void open(value::Iterator* iterator);
  Value* take_ahead(value::Iterator* iterator);

  effects::Log effects_;
  std::unordered_map<Value*, Value*> addresses_;
  const Source* refuses_without_ = nullptr;
  std::unordered_map<Value*, std::vector<Value*>> originals_;
  std::vector<value::Generator*> generators_;
  struct Lists final : value::ListReader {
    explicit Lists(Capture& owner) : capture(owner) {}
    void read(value::List* list) override;
    Capture& capture;
  } lists_{*this};
  Extensions states_;
  bool iterates_ = false;
};

}  // namespace gramme::trace
