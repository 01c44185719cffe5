#include "trace/rebuild.h"

#include <algorithm>

#include "cpython/objects.h"

namespace gramme::trace {

using namespace value;
using plan::kKeep;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

namespace {
[[noreturn]] void unsupported(const std::string& what) { cannot(Reason::ReplayUnsupported, what); }
PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }

bool has_own(PyObject* object, PyObject* name) {
  PyObject* found = nullptr;
  return cpython::instance_attribute(object, name, &found) == cpython::Lookup::Found;
}

bool has_slot(PyObject* object, PyObject* name) {
  PyObject* descriptor = cpython::type_lookup(Py_TYPE(object), name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, Py_TYPE(object)) : -1;
  return offset >= 0 && *cpython::slot_address(object, offset);
}

/// A data descriptor of the type stands before what the instance dict holds under the name.
bool is_shadowed(PyTypeObject* type, PyObject* name) {
  PyObject* found = cpython::type_lookup(type, name);
  return found && Py_TYPE(found)->tp_descr_set;
}
}  // namespace

Rebuilder::Rebuilder(Trace& trace) : trace_(trace) {
  for (const effects::Effect& effect : trace.effects.entries())
    if (effect.kind == effects::Kind::Call) calls_.push_back(&effect);
}

Register Rebuilder::operator()(Value* value) {
  if (auto* lazy = as<Lazy>(value)) {
    if (lazy->target && !lazy->target->source) return (*this)(lazy->target);
    return read(lazy->source);
  }
  if (value->kind == Kind::Null) return kNull;
  auto found = memo_.find(value);
  if (found != memo_.end()) return found->second;
  if (value->made_by >= 0) {
    replay_calls(static_cast<size_t>(value->made_by));
    return memo_.at(value);
  }
  if (depth_ == kDeepest) unsupported("objects nested too deeply");
  ++depth_;
  Register result = make(value);
  --depth_;
  memo_[value] = result;
  return result;
}

int Rebuilder::read(const Source* source) {
  auto [at, added] = read_index_.try_emplace(source, static_cast<int>(reads_.size()));
  if (added) reads_.push_back(source);
  return at->second;
}

Register Rebuilder::constant(PyObject* object) {
  auto [at, added] = constants_.try_emplace(object, 0);
  if (added) {
    at->second = kConstant * kSort + static_cast<Register>(replay_.constants.size());
    replay_.constants.push_back(share(object));
  }
  return at->second;
}

Register Rebuilder::output(graph::Node* node) {
  auto [at, added] = output_index_.try_emplace(node, static_cast<int>(outputs_.size()));
  if (added) outputs_.push_back(node);
  return kOutput * kSort + at->second;
}

ReplayOp& Rebuilder::op(ReplayKind kind) {
  replay_.ops.push_back({});
  replay_.ops.back().kind = kind;
  return replay_.ops.back();
}

Register Rebuilder::made(ReplayKind kind, PyObject* object) {
  Register result = fresh();
  ReplayOp& made = op(kind);
  made.dst = result;
  made.object = share(object);
  return result;
}

void Rebuilder::operands(ReplayOp& op, const std::vector<Register>& registers) {
  op.first = static_cast<int32_t>(replay_.operands.size());
  op.count = static_cast<int32_t>(registers.size());
  replay_.operands.insert(replay_.operands.end(), registers.begin(), registers.end());
}

void Rebuilder::with_operands(ReplayKind kind, Register target, const std::vector<Register>& registers) {
  ReplayOp& filled = op(kind);
  filled.a = target;
  operands(filled, registers);
}

std::vector<Register> Rebuilder::all(const std::vector<Value*>& values) {
  std::vector<Register> registers;
  registers.reserve(values.size());
  for (Value* value : values) registers.push_back((*this)(value));
  return registers;
}

std::vector<Register> Rebuilder::pairs(Table& table) {
  std::vector<Register> registers;
  table.each([&](Table::Entry& entry) {
    registers.push_back((*this)(entry.key));
    registers.push_back((*this)(entry.value));
  });
  return registers;
}

Register Rebuilder::call(PyObject* callable, const std::vector<Register>& registers) {
  Register result = fresh();
  ReplayOp& called = op(ReplayKind::CallConstant);
  called.dst = result;
  called.object = share(callable);
  operands(called, registers);
  return result;
}

Register Rebuilder::make(Value* value) {
  if (value->source) {
    if (value->source->kind == source::Kind::Pinned) return constant(value->object);
    return read(value->source);
  }
  switch (value->kind) {
    case Kind::Constant:
    case Kind::Builtin:
      return constant(value->object);
    case Kind::Class:
      return make_class(static_cast<Class*>(value));
    case Kind::Tensor: {
      auto* tensor = static_cast<Tensor*>(value);
      if (tensor->record->requires_grad && tensor->record->is_leaf && tensor->late != Tensor::Closed) new_leaf(tensor);
      Register result = output(tensor->node);
      memo_[value] = result;
      store_attributes(result, tensor->attributes);
      return result;
    }
    case Kind::Number:
      return output(static_cast<Number*>(value)->node);
    case Kind::Tuple:
      return make_tuple(static_cast<Tuple*>(value));
    case Kind::List:
      return make_list(static_cast<List*>(value));
    case Kind::Dict:
      return make_dict(static_cast<Dict*>(value));
    case Kind::Set:
      return make_set(static_cast<Set*>(value));
    case Kind::Deque:
      return make_deque(static_cast<Deque*>(value));
    case Kind::Function:
      return make_function(static_cast<Function*>(value));
    case Kind::Object:
      return make_object(static_cast<Object*>(value));
    case Kind::Generator:
      return make_generator(static_cast<Generator*>(value));
    case Kind::Iterator:
      return make_iterator(static_cast<Iterator*>(value));
    case Kind::Partial:
      return make_partial(static_cast<Partial*>(value));
    case Kind::Slice: {
      auto* slice = static_cast<Slice*>(value);
      Register start = (*this)(slice->start), stop = (*this)(slice->stop), step = (*this)(slice->step);
      return call(reinterpret_cast<PyObject*>(&PySlice_Type), {start, stop, step});
    }
    case Kind::Cell: {
      Register result = made(ReplayKind::MakeCell);
      memo_[value] = result;
      fill_cell(static_cast<Cell*>(value));
      return result;
    }
    case Kind::Method: {
      auto* method = static_cast<Method*>(value);
      Register function = (*this)(method->function), self = (*this)(method->self);
      if (auto* known = remembered(value)) return *known;
      Register result = made(ReplayKind::MakeMethod);
      replay_.ops.back().a = function;
      replay_.ops.back().b = self;
      return result;
    }
    case Kind::BuiltinMethod:
      return make_builtin_method(static_cast<BuiltinMethod*>(value));
    case Kind::View: {
      auto* view = static_cast<View*>(value);
      if (view->dict->kind != Kind::Dict) unsupported("a view of an instance's attributes");
      PyObject* method = PyDict_GetItemString(PyDict_Type.tp_dict, view->which == View::Keys     ? "keys"
                                                                   : view->which == View::Values ? "values"
                                                                                                 : "items");
      return call(method, {(*this)(view->dict)});
    }
    case Kind::InstanceDict: {
      Register owner = (*this)(static_cast<InstanceDict*>(value)->owner);
      return call(builtin("vars"), {owner});
    }
    default:
      unsupported(std::string("a ") + kind_name(value->kind));
  }
}

/// What a compiled graph returns may have a history, whatever it was inside: the real operation makes the leaf.
void Rebuilder::new_leaf(Tensor* tensor) {
  trace_.stop_at = tensor->made_at;
  unsupported("a leaf made by an operation");
}

Register Rebuilder::make_tuple(Tuple* tuple) {
  std::vector<Register> items = all(tuple->items);
  if (auto* known = remembered(tuple)) return *known;
  Register result =
      made(ReplayKind::MakeTuple, tuple->type == &PyTuple_Type ? nullptr : reinterpret_cast<PyObject*>(tuple->type));
  operands(replay_.ops.back(), items);
  return result;
}

Register Rebuilder::make_list(List* list) {
  Register result = made(ReplayKind::MakeList);
  memo_[list] = result;
  if (!list->items.empty()) with_operands(ReplayKind::FillList, result, all(list->items));
  return result;
}

Register Rebuilder::make_dict(Dict* dict) {
  Register result;
  if (dict->factory) {
    Register factory = (*this)(dict->factory);
    result = made(ReplayKind::MakeDefaultDict);
    replay_.ops.back().a = factory;
  } else {
    result = made(ReplayKind::MakeDict, dict->type == &PyDict_Type ? nullptr : reinterpret_cast<PyObject*>(dict->type));
  }
  memo_[dict] = result;
  if (dict->entries.size()) with_operands(ReplayKind::FillDict, result, pairs(dict->entries));
  store_attributes(result, dict->attributes);
  return result;
}

Register Rebuilder::make_set(Set* set) {
  if (set->places) {
    Register result = made(ReplayKind::CopySet, set->places);
    replay_.ops.back().number = set->frozen;
    return result;
  }
  std::vector<Register> keys;
  set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  if (auto* known = remembered(set)) return *known;
  if (set->frozen) {
    Register result = made(ReplayKind::MakeFrozenSet);
    operands(replay_.ops.back(), keys);
    return result;
  }
  Register result = made(ReplayKind::MakeSet);
  if (!keys.empty()) with_operands(ReplayKind::FillSet, result, keys);
  return result;
}

/// `otherwise` fills it where the places of the members are not known.
void Rebuilder::fill_set(Register target, Set* set, ReplayKind otherwise) {
  std::vector<Register> keys;
  if (!set->places) set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  with_operands(set->places ? ReplayKind::PlaceMembers : otherwise, target, keys);
  if (set->places) replay_.ops.back().object = share(set->places);
}

Register Rebuilder::make_deque(Deque* deque) {
  Register maxlen = constant(deque->maxlen < 0 ? Py_None : trace_.keep(take(PyLong_FromSsize_t(deque->maxlen))));
  Register result = made(ReplayKind::MakeDeque);
  replay_.ops.back().a = maxlen;
  memo_[deque] = result;
  if (!deque->items.empty()) with_operands(ReplayKind::FillDeque, result, all(deque->items));
  return result;
}

Register Rebuilder::make_function(Function* function) {
  Register globals = (*this)(function->globals);
  auto optional = [&](Value* value) { return value ? (*this)(value) : kNull; };
  std::vector<Register> parts{constant(function->name),        constant(function->qualname),
                              optional(function->defaults),    optional(function->kwdefaults),
                              optional(function->annotations), kNull};
  if (!function->closure.empty()) {
    // Cells first and empty, so that a function may be in its own closure.
    for (Value* cell : function->closure) {
      if (cell->source || memo_.contains(cell)) continue;
      memo_[cell] = made(ReplayKind::MakeCell);
    }
    std::vector<Register> cells = all(function->closure);
    parts[5] = made(ReplayKind::MakeTuple);
    operands(replay_.ops.back(), cells);
  }
  if (auto* known = remembered(function)) return *known;
  Register result = made(ReplayKind::MakeFunction, reinterpret_cast<PyObject*>(function->code));
  replay_.ops.back().a = globals;
  operands(replay_.ops.back(), parts);
  memo_[function] = result;
  for (Value* closed : function->closure)
    if (!closed->source) fill_cell(static_cast<Cell*>(closed));
  store_attributes(result, function->fields);
  store_attributes(result, function->attributes, &PyFunction_Type);
  return result;
}

/// Into the instance dict, past a data descriptor of the type (null if it has none); a null value deletes.
void Rebuilder::store_attribute(Register target, PyObject* name, Value* value, PyTypeObject* type) {
  bool shadowed = type && is_shadowed(type, name);
  Register content = value ? (*this)(value) : kNull;
  ReplayOp& store = op(value      ? shadowed ? ReplayKind::StoreOwn : ReplayKind::StoreAttr
                       : shadowed ? ReplayKind::DeleteOwn
                                  : ReplayKind::DeleteAttr);
  store.a = target;
  store.b = content;
  store.object = share(name);
}

void Rebuilder::store_attributes(Register target, const Attributes& attributes, PyTypeObject* type) {
  for (const Attribute& attribute : attributes)
    if (attribute.value) store_attribute(target, attribute.name, attribute.value, type);
}

Register Rebuilder::make_object(Object* object) {
  bool exception = PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  if (object->type == &PyTraceBack_Type) unsupported("a traceback");
  if (object->raised) unsupported("an exception that was raised, with its traceback");
  if (object->type == &_PyWeakref_RefType || is_address(object)) {
    Register referent = (*this)(object->attributes.at(0).value);
    return call(is_address(object) ? builtin("id") : reinterpret_cast<PyObject*>(object->type), {referent});
  }
  if (object->type == &PyDictProxy_Type)
    return call(reinterpret_cast<PyObject*>(object->type), {(*this)(object->payload)});
  static PyObject* simple_namespace =
      take(PyObject_GetAttrString(take(PyImport_ImportModule("types")).get(), "SimpleNamespace")).release();
  if (std::optional<Register> descriptor = make_descriptor(object)) return *descriptor;
  bool plain = object->type == &PyBaseObject_Type || reinterpret_cast<PyObject*>(object->type) == simple_namespace;
  if (!(object->type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !exception && !plain)
    unsupported(std::string("a new ") + object->type->tp_name);
  bool of_made = trace_.is_made(object->type);
  Register cls = of_made ? (*this)(trace_.pinned(reinterpret_cast<PyObject*>(object->type))) : kNull;
  auto* type = of_made ? nullptr : reinterpret_cast<PyObject*>(object->type);
  Register result;
  if (exception) {
    std::vector<Register> args = all(static_cast<Tuple*>(object->payload)->items);
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeObject, type);
    replay_.ops.back().a = cls;
    operands(replay_.ops.back(), args);
  } else if (auto* tuple = object->payload ? as<Tuple>(object->payload) : nullptr) {
    if (of_made) unsupported("a tuple of a class made in the capture");
    std::vector<Register> items = all(tuple->items);
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeTuple, type);
    operands(replay_.ops.back(), items);
  } else {
    if (auto* known = remembered(object)) return *known;
    result = made(ReplayKind::MakeObject, type);
    replay_.ops.back().a = cls;
  }
  memo_[object] = result;
  if (object->payload && object->payload->kind == Kind::Constant)
    unsupported("a new instance of a subclass of a number or text");
  if (object->payload && !exception) {
    memo_[object->payload] = result;
    if (auto* dict = as<Dict>(object->payload)) with_operands(ReplayKind::FillDict, result, pairs(dict->entries));
    if (auto* list = as<List>(object->payload)) with_operands(ReplayKind::FillList, result, all(list->items));
    if (auto* set = as<Set>(object->payload)) {
      if (set->frozen) unsupported("a new instance of a subclass of frozenset");
      fill_set(result, set, ReplayKind::FillSet);
    }
  }
  store_attributes(result, object->slots);
  store_attributes(result, object->attributes, object->type);
  if (object->cause || object->context) unsupported("a new exception with a cause or context");
  return result;
}

/// One that is not started: the function is called again, which runs none of its code.
Register Rebuilder::make_generator(Generator* generator) {
  if (generator->started && generator->frame) unsupported("a generator that was started");
  if (!generator->function) unsupported("a generator of a function with keyword-only parameters or **");
  static PyObject* apply =
      take(PyObject_GetAttrString(take(PyImport_ImportModule("operator")).get(), "call")).release();
  std::vector<Register> parts{(*this)(generator->function)};
  for (Value* argument : generator->arguments) parts.push_back((*this)(argument));
  if (auto made = memo_.find(generator); made != memo_.end()) return made->second;  // it is in its own closure
  Register made = call(apply, parts);
  if (!generator->frame) call_method(&PyGen_Type, "close", {made});  // of one that never ran: runs none of its code
  return made;
}

Register Rebuilder::make_partial(Partial* partial) {
  Register function = (*this)(partial->function);
  std::vector<Register> args = all(partial->args), keywords;
  for (Attribute& keyword : partial->keywords) {
    keywords.push_back(constant(keyword.name));
    keywords.push_back((*this)(keyword.value));
  }
  if (auto* known = remembered(partial)) return *known;
  Register tuple = made(ReplayKind::MakeTuple);
  operands(replay_.ops.back(), args);
  Register dict = made(ReplayKind::MakeDict);
  with_operands(ReplayKind::FillDict, dict, keywords);
  Register result = made(ReplayKind::MakePartial);
  ReplayOp& made_partial = replay_.ops.back();
  made_partial.a = function;
  made_partial.b = tuple;
  made_partial.c = dict;
  memo_[partial] = result;
  store_attributes(result, partial->attributes);
  return result;
}

// ---- effects

void Rebuilder::replay(const effects::Effect& effect) {
  using K = effects::Kind;
  switch (effect.kind) {
    case K::StoreAttr:
      return replay_attribute(effect);
    case K::StoreSlot:
      return replay_slot(effect);
    case K::StoreGlobal: {
      auto* names = static_cast<Namespace*>(effect.target);
      Value* value = names->names[effect.name].value;
      Register dict = (*this)(names), content = value ? (*this)(value) : kNull;
      if (!value && !PyDict_Contains(names->object, effect.name)) return;
      ReplayOp& store = op(value ? ReplayKind::StoreDict : ReplayKind::DeleteDict);
      store.a = dict;
      store.b = constant(effect.name);
      store.c = content;
      return;
    }
    case K::StoreCell: {
      auto* cell = static_cast<Cell*>(effect.target);
      Register target = (*this)(cell), content = cell->content ? (*this)(cell->content) : kNull;
      ReplayOp& store = op(ReplayKind::StoreCell);
      store.a = target;
      store.b = content;
      return;
    }
    case K::Content:
      return replay_content(effect.target);
    case K::Call:
      return replay_calls(static_cast<size_t>(effect.call));
    case K::StoreClassAttr:
      return replay_class_attribute(effect);
  }
}

/// Calls keep their order, also when what a later one returned is needed earlier than its turn.
void Rebuilder::replay_calls(size_t last) {
  while (called_ <= last) replay_call(called_);
}

void Rebuilder::replay_call(size_t index) {
  const effects::Effect& effect = *calls_[index];
  std::vector<Register> registers = all(effect.operands);
  if (called_ > index) return;  // an operand holds the call's own result: a hook that removes itself
  called_ = index + 1;
  Register result = call(effect.callable, registers);
  replay_.ops.back().kind = ReplayKind::CallEffect;
  if (!effect.result) return;
  memo_[effect.result] = result;
  if (auto* object = as<Object>(effect.result)) store_attributes(result, object->attributes);
  if (auto* tensor = as<Tensor>(effect.result)) store_attributes(result, tensor->attributes);
}

void Rebuilder::replay_attribute(const effects::Effect& effect) {
  Value* target = effect.target;
  auto* object = as<Object>(target);
  Attributes* attributes = object ? &object->attributes : nullptr;
  if (auto* tensor = as<Tensor>(target)) attributes = &tensor->attributes;
  if (auto* function = as<Function>(target)) attributes = &function->attributes;
  if (!attributes) GRAMME_BUG("attribute effect on another kind");
  Attribute* written = find(*attributes, effect.name);
  bool there = has_own(target->object, effect.name);
  if (!written->value && !there) return;  // set and deleted within the capture
  PyTypeObject* type = object ? object->type : target->kind == Kind::Function ? &PyFunction_Type : nullptr;
  Register owner = (*this)(target);
  if (effect.anew && there && written->value) store_attribute(owner, effect.name, nullptr, type);
  store_attribute(owner, effect.name, written->value, type);
}

void Rebuilder::replay_slot(const effects::Effect& effect) {
  auto* object = static_cast<Object*>(effect.target);
  Attribute* written = find(object->slots, effect.name);
  if (!written->value && !has_slot(object->object, effect.name)) return;
  store_attribute((*this)(object), effect.name, written->value, nullptr);
}

void Rebuilder::replay_list(List* list) {
  const std::vector<Value*>& before = *trace_.original_items(list);
  bool grown = list->items.size() >= before.size() && std::equal(before.begin(), before.end(), list->items.begin());
  Register target = (*this)(list);
  std::vector<Value*> items(list->items.begin() + (grown ? before.size() : 0), list->items.end());
  with_operands(grown ? ReplayKind::FillList : ReplayKind::AssignList, target, all(items));
}

void Rebuilder::replay_dict(Dict* dict) {
  Register target = (*this)(dict);
  if (dict->rewritten) return with_operands(ReplayKind::AssignDict, target, pairs(dict->entries));
  for (Value* key : dict->erased) {
    Register erased = (*this)(key);
    ReplayOp& erase = op(ReplayKind::DeleteDict);
    erase.a = target;
    erase.b = erased;
  }
  std::vector<Register> changed;
  dict->entries.each([&](Table::Entry& entry) {
    if (!entry.changed) return;
    changed.push_back((*this)(entry.key));
    changed.push_back((*this)(entry.value));
  });
  with_operands(ReplayKind::FillDict, target, changed);
}

/// Once, and before an iterator over it is made.
void Rebuilder::replay_content(Value* target) {
  if (!filled_.insert(target).second) return;
  if (auto* list = as<List>(target)) return replay_list(list);
  if (auto* dict = as<Dict>(target)) return replay_dict(dict);
  Register reg = (*this)(target);
  if (auto* deque = as<Deque>(target)) return with_operands(ReplayKind::AssignDeque, reg, all(deque->items));
  auto* set = as<Set>(target);
  if (!set) GRAMME_BUG("content effect on another kind");
  fill_set(reg, set, ReplayKind::AssignSet);
}

void Rebuilder::number_registers(plan::Exit& exit) {
  int reads = static_cast<int>(reads_.size()), outputs = static_cast<int>(outputs_.size());
  int constants = static_cast<int>(replay_.constants.size());
  replay_.constant_base = reads + outputs;
  replay_.registers = reads + outputs + constants + made_;
  auto number = [&](Register& r) {
    if (r < 0) return;
    int base[] = {0, reads, reads + outputs, reads + outputs + constants};
    r = base[r / kSort] + r % kSort;
  };
  for (ReplayOp& op : replay_.ops) {
    number(op.dst);
    number(op.a);
    number(op.b);
    number(op.c);
  }
  for (Register& r : replay_.operands) number(r);
  number(exit.result);
  for (plan::SlotWrite& write : exit.locals) number(write.value);
  for (Register& r : exit.stack) number(r);
  number(exit.exception);
}

}  // namespace gramme::trace
