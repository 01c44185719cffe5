#include "trace/rebuild.h"

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

/// Does the real object have the attribute itself, in its dict or in a slot?
bool has_own(PyObject* object, PyObject* name) {
  PyObject* found = nullptr;
  if (cpython::instance_attribute(object, name, &found) == cpython::Lookup::Found) return true;
  PyObject* descriptor = cpython::type_lookup(Py_TYPE(object), name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, Py_TYPE(object)) : -1;
  return offset >= 0 && *cpython::slot_address(object, offset);
}
}  // namespace

Register Rebuilder::operator()(Value* value) {
  if (auto* lazy = as<Lazy>(value)) {
    if (lazy->target && !lazy->target->source) return (*this)(lazy->target);
    return read(lazy->source);
  }
  if (value->kind == Kind::Null) return kNull;
  auto found = memo_.find(value);
  if (found != memo_.end()) return found->second;
  Register result = make(value);
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
      unsupported("a class made in the capture");
    case Kind::Tensor: {
      auto* tensor = static_cast<Tensor*>(value);
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
      auto* cell = static_cast<Cell*>(value);
      Register result = made(ReplayKind::MakeCell);
      memo_[value] = result;
      Register content = cell->content ? (*this)(cell->content) : kNull;
      ReplayOp& store = op(ReplayKind::StoreCell);
      store.a = result;
      store.b = content;
      return result;
    }
    case Kind::Method: {
      auto* method = static_cast<Method*>(value);
      Register function = (*this)(method->function), self = (*this)(method->self);
      Register result = made(ReplayKind::MakeMethod);
      replay_.ops.back().a = function;
      replay_.ops.back().b = self;
      return result;
    }
    case Kind::BuiltinMethod: {
      auto* method = static_cast<BuiltinMethod*>(value);
      Register self = (*this)(method->self);
      return call(builtin("getattr"),
                  {self, constant(trace_.keep(take(PyObject_GetAttrString(method->object, "__name__"))))});
    }
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

Register Rebuilder::make_tuple(Tuple* tuple) {
  std::vector<Register> items = all(tuple->items);
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
  return result;
}

Register Rebuilder::make_set(Set* set) {
  std::vector<Register> keys;
  set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  if (set->frozen) {
    Register result = made(ReplayKind::MakeFrozenSet);
    operands(replay_.ops.back(), keys);
    return result;
  }
  Register result = made(ReplayKind::MakeSet);
  if (!keys.empty()) with_operands(ReplayKind::FillSet, result, keys);
  return result;
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
  Register result = made(ReplayKind::MakeFunction, reinterpret_cast<PyObject*>(function->code));
  replay_.ops.back().a = globals;
  operands(replay_.ops.back(), parts);
  memo_[function] = result;
  for (Value* closed : function->closure) {
    auto* cell = as<Cell>(closed);
    if (cell->source || !filled_.insert(cell).second) continue;
    Register content = cell->content ? (*this)(cell->content) : kNull;
    ReplayOp& store = op(ReplayKind::StoreCell);
    store.a = memo_[cell];
    store.b = content;
  }
  store_attributes(result, function->attributes);
  return result;
}

void Rebuilder::store_attributes(Register target, const Attributes& attributes) {
  for (const Attribute& attribute : attributes) {
    if (!attribute.value) continue;
    Register value = (*this)(attribute.value);
    ReplayOp& store = op(ReplayKind::StoreAttr);
    store.a = target;
    store.b = value;
    store.object = share(attribute.name);
  }
}

Register Rebuilder::make_object(Object* object) {
  bool exception = PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  if (object->type == &PyTraceBack_Type) unsupported("a traceback");
  if (object->raised) unsupported("an exception that was raised, with its traceback");
  if (trace_.is_made(object->type)) unsupported("an instance of a class made in the capture");
  static PyObject* simple_namespace =
      take(PyObject_GetAttrString(take(PyImport_ImportModule("types")).get(), "SimpleNamespace")).release();
  bool plain = object->type == &PyBaseObject_Type || reinterpret_cast<PyObject*>(object->type) == simple_namespace;
  if (!(object->type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !exception && !plain)
    unsupported(std::string("a new ") + object->type->tp_name);
  auto* type = reinterpret_cast<PyObject*>(object->type);
  Register result;
  if (exception) {
    std::vector<Register> args = all(static_cast<Tuple*>(object->payload)->items);
    result = made(ReplayKind::MakeObject, type);
    operands(replay_.ops.back(), args);
  } else if (auto* tuple = object->payload ? as<Tuple>(object->payload) : nullptr) {
    std::vector<Register> items = all(tuple->items);
    result = made(ReplayKind::MakeTuple, type);
    operands(replay_.ops.back(), items);
  } else {
    result = made(ReplayKind::MakeObject, type);
  }
  memo_[object] = result;
  if (object->payload && object->payload->kind == Kind::Constant)
    unsupported("a new instance of a subclass of a number or text");
  if (object->payload && !exception) {
    memo_[object->payload] = result;
    if (auto* dict = as<Dict>(object->payload)) with_operands(ReplayKind::FillDict, result, pairs(dict->entries));
    if (auto* list = as<List>(object->payload)) with_operands(ReplayKind::FillList, result, all(list->items));
    if (object->payload->kind == Kind::Set) unsupported("a new instance of a subclass of set");
  }
  store_attributes(result, object->attributes);
  if (object->cause || object->context) unsupported("a new exception with a cause or context");
  return result;
}

/// One that is not started: the function is called again, which runs none of its code.
Register Rebuilder::make_generator(Generator* generator) {
  if (generator->started || !generator->frame) unsupported("a generator that was started");
  if (!generator->function) unsupported("a generator of a function with keyword-only parameters or **");
  static PyObject* apply =
      take(PyObject_GetAttrString(take(PyImport_ImportModule("operator")).get(), "call")).release();
  std::vector<Register> parts{(*this)(generator->function)};
  for (Value* argument : generator->arguments) parts.push_back((*this)(argument));
  if (auto made = memo_.find(generator); made != memo_.end()) return made->second;  // it is in its own closure
  return call(apply, parts);
}

/// `example` makes an iterator of the same type.
void Rebuilder::set_position(Register iterator, const char* example, Py_ssize_t index) {
  PyObject* real = trace_.keep(take(PyRun_String(example, Py_eval_input, PyEval_GetBuiltins(), PyEval_GetBuiltins())));
  PyObject* method = cpython::type_lookup(Py_TYPE(real), intern("__setstate__"));
  call(method, {iterator, constant(trace_.keep(take(PyLong_FromSsize_t(index))))});
}

Register Rebuilder::make_iterator(Iterator* iterator) {
  auto part = [&](size_t i) { return (*this)(iterator->parts.at(i)); };
  auto positioned = [&](Register made, const char* type) {
    if (iterator->done) unsupported("an exhausted iterator");
    if (iterator->index != 0) set_position(made, type, iterator->index);
    return made;
  };
  switch (iterator->sort) {
    case Iterator::Sequence: {
      Value* sequence = trace_.see(iterator->parts.at(0));
      Register made = call(builtin("iter"), {(*this)(sequence)});
      if (sequence->kind == Kind::List) return positioned(made, "iter([])");
      if (sequence->kind == Kind::Tuple) return positioned(made, "iter(())");
      if (iterator->index == 0 && !iterator->done) return made;
      unsupported("an iterator that was advanced");
    }
    case Iterator::Reversed: {
      Value* sequence = trace_.see(iterator->parts.at(0));
      if ((sequence->kind != Kind::List && sequence->kind != Kind::Tuple) || iterator->done)
        unsupported("a reversed iterator");
      Register made = call(builtin("reversed"), {(*this)(sequence)});
      set_position(made, sequence->kind == Kind::List ? "reversed([])" : "reversed(())", iterator->index);
      return made;
    }
    case Iterator::Range: {
      Owned<> range = take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "nnn", iterator->index,
                                                 iterator->stop, iterator->increment));
      return call(builtin("iter"), {constant(trace_.keep(range))});
    }
    case Iterator::Enumerate:
      return call(builtin("enumerate"), {part(0), constant(trace_.keep(take(PyLong_FromSsize_t(iterator->index))))});
    case Iterator::Zip:
      if (iterator->stop == 1) unsupported("zip(strict=True)");
      return call(builtin("zip"), all(iterator->parts));
    case Iterator::Map:
      return call(builtin("map"), all(iterator->parts));
    case Iterator::Filter:
      if (iterator->stop == 1) unsupported("filterfalse");
      return call(builtin("filter"), all(iterator->parts));
    default:
      unsupported("an iterator that was advanced");
  }
}

Register Rebuilder::make_partial(Partial* partial) {
  Register function = (*this)(partial->function);
  std::vector<Register> args = all(partial->args), keywords;
  for (Attribute& keyword : partial->keywords) {
    keywords.push_back(constant(keyword.name));
    keywords.push_back((*this)(keyword.value));
  }
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
    case K::StoreFunctionAttr:
      return replay_attribute(effect);
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
    case K::Call: {
      std::vector<Register> registers = all(effect.operands);
      ReplayOp& called = op(ReplayKind::CallEffect);
      called.dst = fresh();
      replay_.ops.back().object = share(effect.callable);
      operands(replay_.ops.back(), registers);
      return;
    }
    case K::StoreClassAttr: {
      Value* value = trace_.written_class_attribute(static_cast<Class*>(effect.target)->type(), effect.name);
      Register cls = (*this)(effect.target), content = (*this)(value);
      ReplayOp& store = op(ReplayKind::StoreTypeAttr);
      store.a = cls;
      store.b = content;
      store.object = share(effect.name);
      return;
    }
  }
}

void Rebuilder::replay_attribute(const effects::Effect& effect) {
  Value* target = effect.target;
  PyObject* name = effect.name;
  Attributes* attributes = nullptr;
  if (auto* object = as<Object>(target)) attributes = &object->attributes;
  if (auto* tensor = as<Tensor>(target)) attributes = &tensor->attributes;
  if (auto* function = as<Function>(target)) attributes = &function->attributes;
  if (!attributes) GRAMME_BUG("attribute effect on another kind");
  for (Attribute& attribute : *attributes) {
    if (attribute.name != name) continue;
    if (!attribute.value && !has_own(target->object, name)) return;  // set and deleted within the capture
    Register object = (*this)(target), value = attribute.value ? (*this)(attribute.value) : kNull;
    ReplayOp& store = op(attribute.value ? ReplayKind::StoreAttr : ReplayKind::DeleteAttr);
    store.a = object;
    store.b = value;
    store.object = share(name);
    return;
  }
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
  std::vector<Register> changed;
  dict->entries.each([&](Table::Entry& entry) {
    if (!entry.changed) return;
    changed.push_back((*this)(entry.key));
    changed.push_back((*this)(entry.value));
  });
  with_operands(ReplayKind::FillDict, target, changed);
}

void Rebuilder::replay_content(Value* target) {
  if (auto* list = as<List>(target)) return replay_list(list);
  if (auto* dict = as<Dict>(target)) return replay_dict(dict);
  Register reg = (*this)(target);
  if (auto* deque = as<Deque>(target)) return with_operands(ReplayKind::AssignDeque, reg, all(deque->items));
  auto* set = as<Set>(target);
  if (!set) GRAMME_BUG("content effect on another kind");
  std::vector<Register> keys;
  set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  with_operands(ReplayKind::AssignSet, reg, keys);
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
