#include "trace/read_later.h"

#include <algorithm>

#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;

namespace {

/// What is in a container or an object that the capture made; of others nothing.
std::vector<Value*> content_of(Trace& trace, Value* value) {
  std::vector<Value*> content;
  auto add = [&](Value* part) {
    if (part) content.push_back(trace.see(part));
  };
  auto add_all = [&](const Attributes& attributes) {
    for (const Attribute& attribute : attributes) add(attribute.value);
  };
  if (auto* tuple = as<Tuple>(value))
    for (Value* item : tuple->items) add(item);
  if (value->existing()) return content;
  if (auto* list = as<List>(value))
    for (Value* item : list->items()) add(item);
  if (auto* dict = as<Dict>(value))
    dict->entries.each([&](Table::Entry& entry) {
      add(entry.key);
      add(entry.value);
    });
  if (auto* object = as<Object>(value)) {
    add_all(object->attributes);
    add_all(object->slots);
    add(object->payload);
  }
  return content;
}

/// Are its subscripts known, and is whoever asks for its attributes told (confined.h)?
bool can_follow(const Value* value) {
  static constexpr Kind kFollowed[] = {Kind::Constant, Kind::Number,  Kind::Tensor,   Kind::Tuple, Kind::Class,
                                       Kind::Module,   Kind::Builtin, Kind::Function, Kind::Method};
  if (value->kind == Kind::List || value->kind == Kind::Dict) return !value->existing();
  if (value->kind == Kind::Object) return !value->existing() || !static_cast<const Object*>(value)->payload;
  return std::ranges::find(kFollowed, value->kind) != std::end(kFollowed);
}

}  // namespace

void ReadLater::keep(Trace& trace, Value* value) {
  Capture::Deeper deeper(trace);
  value = trace.see(value);
  if (!known_.insert(value).second) return;
  std::vector<Value*> content = content_of(trace, value);
  for (Value* part : content) {
    if (can_follow(part))
      keep(trace, part);
    else if (value->kind != Kind::Object)
      cannot(Reason::EffectInBody, std::string("a ") + kind_name(part->kind) + " that backward may look into");
  }
  if (!value->existing() && is_mutable(value->kind)) kept_.push_back({value, std::move(content), trace.steps()});
}

void ReadLater::check(Trace& trace, const Rebuilder& rebuild) const {
  for (const Kept& kept : kept_)
    if (rebuild.has(kept.value) || content_of(trace, kept.value) != kept.content)
      trace.stop_at(kept.step - 1, Reason::EffectInBody, "an object that backward reads");
}

}  // namespace gramme::trace
