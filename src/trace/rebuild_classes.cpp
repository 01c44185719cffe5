// How replay makes classes, descriptors in their namespaces, and cells.
#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

const Register* Rebuilder::remembered(Value* value) const {
  auto found = memo_.find(value);
  return found == memo_.end() ? nullptr : &found->second;
}

/// Stores the content of a cell, once. A cell for a class whose namespace is being made waits for the class, and one
/// for a class's dict is filled with the class.
void Rebuilder::fill_cell(Cell* cell) {
  if (!filled_.insert(cell).second) return;
  if (Class* cls = cell->dict_of) {
    if (cls->maker) unsupported("the __dict__ of a class that a library made");
    if (!opened_.contains(cls)) (*this)(cls);
    return;
  }
  if (cell->content && opened_.contains(cell->content)) return waiting_.push_back(cell);
  Register content = cell->content ? (*this)(cell->content) : kNull;
  ReplayOp& store = op(ReplayKind::StoreCell);
  store.a = memo_.at(cell);
  store.b = content;
}

Register Rebuilder::made_by_library(Class* cls) {
  Register result = memo_[cls] = call(cls->maker, {});
  opened_.erase(cls);
  for (size_t i = cls->born; i < cls->attributes.size(); ++i)
    if (Value* value = cls->attributes.at(i).value)
      store_class_attribute(result, cls->attributes.at(i).name, (*this)(value));
  return result;
}

namespace {
/// True if the target is reached through the class or one of its members.
bool is_part_of(const Class* cls, const Value* target) {
  const source::Source* root = target && target->source ? target->source->root() : nullptr;
  if (!root || root->kind != source::Kind::Pinned) return false;
  return root->key.get() == cls->object || Py_TYPE(root->key.get()) == cls->type();
}
}  // namespace

/// Makes the class with its namespace. Functions in it can refer to the class only by cells, which are filled
/// afterwards.
Register Rebuilder::make_new(Class* cls) {
  for (const effects::Effect& effect : trace_.effects().entries())
    if (is_part_of(cls, effect.target)) unsupported("a class made in the segment of which a part was changed");
  if (!opened_.insert(cls).second) cannot(Reason::ReplayUnsupported, "a class that is in its own namespace");
  if (cls->maker) return made_by_library(cls);
  PyTypeObject* type = cls->type();
  auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  Register name = constant(heap->ht_name);
  std::vector<Register> bases, pairs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
    bases.push_back((*this)(trace_.pinned(PyTuple_GET_ITEM(type->tp_bases, i))));
  for (size_t i = 0; i < cls->born; ++i) {
    const Attribute& attribute = cls->attributes.at(i);
    if (!attribute.value) continue;
    pairs.push_back(constant(attribute.name));
    pairs.push_back((*this)(attribute.value));
  }
  if (cls->dict_cell) {
    static PyObject* const name_of_cell = intern("__classdictcell__");
    pairs.push_back(constant(name_of_cell));
    pairs.push_back((*this)(cls->dict_cell));
  }
  Register tuple = made(ReplayKind::MakeTuple);
  operands(replay_.ops.back(), bases);
  Register names = made(ReplayKind::MakeDict);
  with_operands(ReplayKind::FillDict, names, pairs);
  Value* meta = trace_.pinned(reinterpret_cast<PyObject*>(Py_TYPE(type)));
  if (!meta->existing()) cannot(Reason::ReplayUnsupported, "a class of a metaclass made in the capture");
  Register result = made(ReplayKind::MakeClass, meta->object);
  replay_.ops.back().a = name;
  replay_.ops.back().b = tuple;
  replay_.ops.back().c = names;
  memo_[cls] = result;
  opened_.erase(cls);
  if (cls->abstract) call(init_abstract(), {result});
  for (size_t i = cls->born; i < cls->attributes.size(); ++i)
    if (Value* value = cls->attributes.at(i).value)
      store_class_attribute(result, cls->attributes.at(i).name, (*this)(value));
  std::vector<Cell*> waiting = std::move(waiting_);
  waiting_.clear();
  for (Cell* cell : waiting) {
    filled_.erase(cell);
    fill_cell(cell);
  }
  return result;
}

PyObject* Rebuilder::init_abstract() {
  PyObject* const made = once([] { return imported("_abc", "_abc_init").release(); });
  return made;
}

/// property, classmethod and staticmethod of functions: their constructors run no code of the program.
std::optional<Register> Rebuilder::make_descriptor(Object* object) {
  bool property = object->type == &PyProperty_Type;
  if (!property && object->type != &PyClassMethod_Type && object->type != &PyStaticMethod_Type) return std::nullopt;
  std::vector<Register> parts;
  for (const Attribute& part : object->slots) {
    Value* function = trace_.see(part.value);
    if (function->kind != Kind::Function && function->kind != Kind::Builtin && function != trace_.none())
      cannot(Reason::ReplayUnsupported, std::string("a ") + object->type->tp_name + " of what is no function");
    parts.push_back((*this)(function));
  }
  if (auto* known = remembered(object)) return *known;
  return call(reinterpret_cast<PyObject*>(object->type), parts);
}

/// Binds the descriptor itself, since the object's class may have another attribute of that name.
Register Rebuilder::make_new(BuiltinMethod* method) {
  Register self = (*this)(method->self);
  if (auto* known = remembered(method)) return *known;
  PyObject* bind = trace_.keep(take(PyObject_GetAttrString(method->object, "__get__")));
  if (Py_IS_TYPE(method->object, &PyClassMethodDescr_Type)) return call(bind, {constant(Py_None), self});
  return call(bind, {self});
}

void Rebuilder::replay_class_attribute(const effects::Effect& effect) {
  auto* cls = static_cast<Class*>(effect.target);
  Attribute* written = find(cls->attributes, effect.name);
  bool there = PyDict_GetItem(type_dict(cls->type()), effect.name) != nullptr;
  if (!written->value && !there) return;
  Register target = (*this)(cls), content = written->value ? (*this)(written->value) : kNull;
  if (effect.anew && there && written->value) store_class_attribute(target, effect.name, kNull);
  store_class_attribute(target, effect.name, content);
}

void Rebuilder::store_class_attribute(Register cls, PyObject* name, Register value) {
  ReplayOp& stored = op(ReplayKind::StoreTypeAttr);
  stored.a = cls;
  stored.b = value;
  stored.object = share(name);
}

}  // namespace gramme::trace
