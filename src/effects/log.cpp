#include "effects/log.h"

namespace gramme::effects {

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {
#define EFFECT(name, ...) #name,
#include "effects/effects.def"
#undef EFFECT
  };
  return kNames[static_cast<int>(kind)];
}

void Log::add(Kind kind, value::Value* target, PyObject* name, size_t graph_length) {
  target->written = true;
  if (seen_.insert({kind, target, name}).second) entries_.push_back({kind, target, name, graph_length});
}

void Log::add_anew(Kind kind, value::Value* target, PyObject* name, size_t graph_length) {
  std::erase_if(entries_, [&](const Effect& e) { return e.kind == kind && e.target == target && e.name == name; });
  seen_.insert({kind, target, name});
  entries_.push_back({kind, target, name, graph_length, true});
}

void Log::add_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length, value::Value* result) {
  if (result) result->made_by = calls_;
  entries_.push_back(
      {Kind::Call, nullptr, nullptr, graph_length, false, callable, std::move(operands), result, calls_});
  ++calls_;
}

const Effect* Log::find(Kind kind, const value::Value* target, PyObject* name) const {
  if (!contains(kind, target, name)) return nullptr;
  for (const Effect& entry : entries_)
    if (entry.kind == kind && entry.target == target && entry.name == name) return &entry;
  return nullptr;
}

bool Log::contains(Kind kind, const value::Value* target, PyObject* name) const {
  return seen_.contains({kind, target, name});
}

}  // namespace gramme::effects
