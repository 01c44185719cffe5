// Shows values by their source, or "a new <kind>" for values that the capture made.
#include "effects/print.h"

#include "source/constant.h"

namespace gramme::effects {

using namespace value;

namespace {

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

/// A value as text: by its source, or by its kind if the capture made it.
std::string shown(const Value* value) {
  if (!value) return "nothing";
  if (auto* lazy = value->kind == value::Kind::Lazy ? static_cast<const Lazy*>(value) : nullptr; lazy && lazy->target)
    return shown(lazy->target);
  if (value->kind == value::Kind::Constant) return source::describe(value->object);
  if (value->source) return value->source->print();
  return std::string("a new ") + kind_name(value->kind);
}

const Value* stored(const Attributes& attributes, PyObject* name) {
  const Attribute* found = find(attributes, name);
  return found ? found->value : nullptr;
}

const Attributes& attributes_of(Value* target) {
  static const Attributes none;
  if (auto* object = as<Object>(target)) return object->attributes;
  if (auto* tensor = as<Tensor>(target)) return tensor->attributes;
  if (auto* function = as<Function>(target)) return function->attributes;
  if (auto* cls = as<Class>(target)) return cls->attributes;
  return none;
}

const Value* final_value(const Effect& effect) {
  if (auto* cell = as<Cell>(effect.target)) return cell->content;
  if (auto* names = as<Namespace>(effect.target)) {
    auto found = names->names.find(effect.name);
    return found == names->names.end() ? nullptr : found->second.value;
  }
  if (effect.kind == effects::Kind::StoreSlot) return stored(static_cast<Object*>(effect.target)->slots, effect.name);
  return stored(attributes_of(effect.target), effect.name);
}

std::string items(size_t count) { return std::to_string(count) + (count == 1 ? " item" : " items"); }

std::string content(Value* target) {
  if (auto* list = as<List>(target)) return items(list->own_items.size()) + (list->unread ? " more" : "");
  if (auto* deque = as<Deque>(target)) return items(deque->items.size());
  if (auto* set = as<Set>(target)) return items(set->entries.size());
  auto* dict = as<Dict>(target);
  if (!dict) return shown(target);
  if (dict->loaded) return items(dict->entries.size());
  size_t changed = 0;
  dict->entries.each([&](Table::Entry& entry) { changed += entry.changed; });
  return items(changed) + " more";
}

std::string call(const Effect& effect) {
  std::string text = source::describe(effect.callable) + "(";
  for (size_t i = 0; i < effect.operands.size(); ++i) text += (i ? ", " : "") + shown(effect.operands[i]);
  return text + ")";
}

}  // namespace

std::string print(const Effect& effect) {
  std::string kind = std::string(kind_name(effect.kind)) + " ";
  if (effect.kind == effects::Kind::Call) return kind + call(effect);
  std::string target = shown(effect.target) + (effect.name ? "." + text_of(effect.name) : "");
  if (effect.kind == effects::Kind::Content) return kind + target + " = " + content(effect.target);
  return kind + target + " = " + shown(final_value(effect));
}

std::vector<std::string> print(const Log& log) {
  std::vector<std::string> lines;
  for (const Effect& effect : log.entries()) lines.push_back(print(effect));
  return lines;
}

}  // namespace gramme::effects
