// A list in the order of first changes, with a hash index by (kind, target, name).
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
  auto [place, added] = places_.try_emplace({kind, target, name});
  if (added) place->second = entries_.insert(entries_.end(), {kind, target, name, graph_length});
  place->second->settled = graph_length;
}

void Log::add_anew(Kind kind, value::Value* target, PyObject* name, size_t graph_length) {
  auto [place, added] = places_.try_emplace({kind, target, name});
  if (!added) entries_.erase(place->second);
  place->second = entries_.insert(entries_.end(), {kind, target, name, graph_length, graph_length, true});
}

void Log::add_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length, value::Value* result) {
  if (result) result->made_by = calls_;
  entries_.push_back(
      {Kind::Call, nullptr, nullptr, graph_length, graph_length, false, callable, std::move(operands), result, calls_});
  ++calls_;
}

void Log::add_quiet_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length) {
  add_call(callable, std::move(operands), graph_length);
  entries_.back().quiet = true;
  ++quiet_;
}

const Effect* Log::find(Kind kind, const value::Value* target, PyObject* name) const {
  auto place = places_.find({kind, target, name});
  return place == places_.end() ? nullptr : &*place->second;
}

bool Log::contains(Kind kind, const value::Value* target, PyObject* name) const {
  return places_.contains({kind, target, name});
}

}  // namespace gramme::effects
