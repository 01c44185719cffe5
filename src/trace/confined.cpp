#include "trace/confined.h"

#include <algorithm>

#include "trace/capture.h"

namespace gramme::trace {

using namespace value;

Confined::Confined(Capture& capture) : capture_(capture), around_(capture.confined_) { capture.confined_ = this; }

Confined::~Confined() {
  capture_.confined_ = around_;
  if (around_) around_->made_.merge(made_);
}

bool Confined::may_change(const Value* target) const { return !target->existing() && made_.contains(target); }

void Confined::change(Value* target) {
  if (!may_change(target)) cannot(Reason::EffectInBody, std::string("a change of a ") + kind_name(target->kind));
}

void Confined::change(Value* target, const char* what, std::function<Value*()> read) {
  if (may_change(target)) return;
  auto known = [&](const Touched& touched) { return touched.target == target && touched.what == what; };
  if (std::any_of(touched_.begin(), touched_.end(), known)) return;
  Value* before = read();
  touched_.push_back({target, what, std::move(read), before});
}

void Confined::write(const Tensor* tensor) {
  for (; tensor; tensor = tensor->base) {
    bool own = false;
    for (const Confined* part = this; part; part = part->around_) {
      own |= part->may_change(tensor);
      if (!own && !part->writes_) cannot(Reason::EffectInBody, "a write to a tensor");
    }
  }
}

void Confined::check() {
  for (const Touched& touched : touched_) {
    Value *now = touched.read(), *before = touched.before;
    if (now) now = capture_.see(now);
    if (before) before = capture_.see(before);
    const bool constants = now && before && now->kind == Kind::Constant && before->kind == Kind::Constant;
    const bool equal = now == before || (constants && now->object == before->object);
    if (!equal) cannot(Reason::EffectInBody, touched.what);
  }
}

}  // namespace gramme::trace
