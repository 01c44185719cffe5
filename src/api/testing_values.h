// Values without a capture, for tests of its parts.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>
#include <vector>

#include "guards/fact_list.h"
#include "trace/literals.h"
#include "trace/sets.h"
#include "trace/values.h"

namespace gramme::api {

/// Values that a test knows by their numbers. What is looked into becomes a container of constants.
class TestValues final : public trace::Values {
 public:
  size_t constant_of(nanobind::object object) { return number_of(constant(object.ptr())); }
  size_t literal_of(nanobind::object object) { return number_of(literal(object.ptr())); }
  size_t adopt_of(nanobind::object object) { return number_of(adopt(share(object.ptr()))); }
  size_t lazy(nanobind::object object) { return number_of(wrap(object.ptr(), pool_.stack(0))); }
  size_t seen(size_t value) { return number_of(see(values_.at(value))); }
  size_t looks() const { return looks_; }
  std::string kind(size_t value) const { return value::kind_name(values_.at(value)->kind); }
  bool is_literal(size_t value) const { return trace::is_literal(values_.at(value)); }
  Py_ssize_t held(nanobind::object object) const { return references_to(object.ptr()); }
  /// So many levels of recursion.
  void nest(int levels) {
    Deeper deeper(*this);
    if (levels > 1) nest(levels - 1);
  }
  /// How many values `made` makes.
  size_t collect(nanobind::callable made) {
    Made all;
    Made* const before = collect_into(&all);
    made();
    collect_into(before);
    return all.size();
  }

  // ---- sets
  void add(size_t set, nanobind::object member) { trace::add_member(*this, at(set), constant(member.ptr())); }
  bool discard(size_t set, nanobind::object member) {
    return trace::discard_member(*this, at(set), constant(member.ptr()));
  }
  nanobind::object pop(size_t set) { return nanobind::borrow(trace::pop_member(*this, facts_, at(set))->object); }
  nanobind::list members(size_t set) {
    nanobind::list all;
    for (const value::Value* member : trace::members(*this, facts_, at(set)))
      all.append(nanobind::borrow(member->object));
    return all;
  }
  nanobind::object real(size_t set) {
    const Owned<> made = trace::real_set(*this, at(set));
    return made ? nanobind::borrow(made.get()) : nanobind::none();
  }

 private:
  value::Value* realize(PyObject* object, const source::Source*) override {
    ++looks_;
    return adopt(share(object));
  }
  value::Set* at(size_t set) { return value::as<value::Set>(values_.at(set)); }
  size_t number_of(value::Value* value) {
    const auto known = std::ranges::find(values_, value);
    const auto number = static_cast<size_t>(known - values_.begin());
    if (known == values_.end()) values_.push_back(value);
    return number;
  }

  source::Pool pool_;
  guards::FactList facts_{pool_};
  std::vector<value::Value*> values_;
  size_t looks_ = 0;
};

}  // namespace gramme::api
