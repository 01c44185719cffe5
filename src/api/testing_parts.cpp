// Test-only bindings of the parts of a capture, each without one.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>

#include "api/testing.h"
#include "guards/fact_list.h"
#include "meta/record.h"
#include "trace/known_objects.h"
#include "trace/literals.h"
#include "trace/progress.h"
#include "trace/sets.h"
#include "trace/varying.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

/// Facts about items of a stack, which are known by their places.
class TestFacts {
 public:
  void is(int place, nb::object object, bool same) { facts_.add_identity(at(place), object.ptr(), same); }
  void pinned_is(nb::object object) { facts_.add_identity(pool_.pinned(object.ptr()), object.ptr()); }
  void type(int place, nb::object type) { facts_.add_type(at(place), type_of(type)); }
  void absent(int place, nb::object name) { facts_.add_absent(child(at(place), name)); }
  void absent_of(nb::object object, nb::object name) { facts_.add_absent(child(pool_.pinned(object.ptr()), name)); }
  void length(int place, size_t length) { facts_.add_length(at(place), length); }
  void between(int place, double low, double high) { facts_.add(guards::between(at(place), low, high)); }
  void exempt(nb::object type) { facts_.exempt(type_of(type)); }
  bool is_exempt(nb::object object) { return facts_.is_exempt(pool_.pinned(object.ptr())); }
  /// A chain of items in items, so deep.
  void nest(int depth) {
    const source::Source* source = at(0);
    for (int i = 0; i < depth; ++i) facts_.add_length(source = pool_.child(source, source::Kind::Item, int64_t{0}), 1);
  }
  std::vector<std::string> all() const {
    std::vector<std::string> texts;
    for (const guards::Fact& fact : facts_.all()) texts.push_back(fact.print());
    return texts;
  }

 private:
  const source::Source* at(int place) { return pool_.stack(place); }
  const source::Source* child(const source::Source* base, const nb::object& name) {
    return pool_.child(base, source::Kind::Attr, name.ptr());
  }
  static PyTypeObject* type_of(const nb::object& type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

  source::Pool pool_;
  guards::FactList facts_{pool_};
};

/// Values that a test knows by their numbers. What is looked into becomes a container of constants.
class TestValues final : public trace::Values {
 public:
  size_t constant_of(nb::object object) { return number_of(constant(object.ptr())); }
  size_t literal_of(nb::object object) { return number_of(literal(object.ptr())); }
  size_t adopt_of(nb::object object) { return number_of(adopt(share(object.ptr()))); }
  size_t lazy(nb::object object) { return number_of(wrap(object.ptr(), pool_.stack(0))); }
  size_t seen(size_t value) { return number_of(see(values_.at(value))); }
  size_t looks() const { return looks_; }
  std::string kind(size_t value) const { return value::kind_name(values_.at(value)->kind); }
  bool is_literal(size_t value) const { return trace::is_literal(values_.at(value)); }
  Py_ssize_t held(nb::object object) const { return references_to(object.ptr()); }
  /// So many levels of recursion.
  void nest(int levels) {
    Deeper deeper(*this);
    if (levels > 1) nest(levels - 1);
  }
  /// How many values `made` makes.
  size_t collect(nb::callable made) {
    Made all;
    Made* const before = collect_into(&all);
    made();
    collect_into(before);
    return all.size();
  }

  // ---- sets
  void add(size_t set, nb::object member) { trace::add_member(*this, at(set), constant(member.ptr())); }
  bool discard(size_t set, nb::object member) { return trace::discard_member(*this, at(set), constant(member.ptr())); }
  nb::object pop(size_t set) { return nb::borrow(trace::pop_member(*this, facts_, at(set))->object); }
  nb::list members(size_t set) {
    nb::list all;
    for (const value::Value* member : trace::members(*this, facts_, at(set))) all.append(nb::borrow(member->object));
    return all;
  }
  nb::object real(size_t set) {
    const Owned<> made = trace::real_set(*this, at(set));
    return made ? nb::borrow(made.get()) : nb::none();
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

/// Real objects, whose values are constants or containers of constants.
class TestObjects {
 public:
  void add(nb::object object) { objects_.add(object.ptr(), values_.constant(object.ptr())); }
  bool knows(nb::object object) const { return objects_.find(object.ptr()) != nullptr; }
  /// True if it is the value that add() noted.
  bool pins(nb::object object) { return objects_.pinned(object.ptr()) == objects_.find(object.ptr()); }
  void note_dict_of(nb::object object) { objects_.note_dict_of(object.ptr()); }
  void refuse_as_dict(nb::object dict) const { objects_.refuse_as_dict(dict.ptr()); }
  /// True if the variables are those of an earlier call.
  bool has_variables(nb::object dict) {
    const value::Namespace* names = objects_.namespace_of(dict.ptr(), pool_.pinned(dict.ptr()));
    return !namespaces_.insert(names).second;
  }
  size_t count() const {
    size_t all = 0;
    objects_.each([&](value::Value*) { ++all; });
    objects_.each_namespace([&](value::Value*) { ++all; });
    return all;
  }

 private:
  source::Pool pool_;
  TestValues values_;
  trace::KnownObjects objects_{values_, pool_};
  std::set<const value::Namespace*> namespaces_;
};

/// Numbers and tensors in variables, which are known by their places.
class TestNumbers {
 public:
  /// What an earlier capture saw.
  void saw(int place, nb::object number) { policy_.numbers[path(place)] = share(number.ptr()); }
  void saw_tensor(int place, nb::object tensor) {
    kept_.append(tensor);
    policy_.observed[path(place)] = meta::record_of(tensor.ptr());
  }
  /// An earlier capture needed the number as a constant.
  void needed(int place) { policy_.specialized.insert(path(place)); }
  /// The kind of value that the number is.
  std::string at(int place, nb::object number) {
    kept_.append(number);
    last_ = numbers_.at(number.ptr(), source(place), nullptr);
    return value::kind_name(last_->kind);
  }
  /// Makes the last number a constant.
  void specialize() { numbers_.specialize(value::as<value::Number>(last_)); }
  std::vector<std::string> facts() const {
    std::vector<std::string> texts;
    for (const guards::Fact& fact : facts_.all()) texts.push_back(fact.print());
    return texts;
  }
  /// Which sizes vary.
  std::vector<bool> sizes(int place, nb::object tensor) {
    kept_.append(tensor);
    std::vector<bool> vary;
    const meta::Record* record = meta::record_of(tensor.ptr());
    for (shape::Expr size : numbers_.sizes(tensor.ptr(), record, source(place), nullptr)) vary.push_back(size);
    return vary;
  }
  std::vector<std::string> specialized() const { return printed(numbers_.specialized()); }
  std::vector<std::string> varying() const { return printed(numbers_.varying()); }
  std::vector<std::string> zeros() const { return printed(numbers_.zeros()); }

 private:
  static trace::Policy with_symbols() {
    trace::Policy policy;
    policy.contract.symbols = true;
    return policy;
  }
  const source::Source* source(int place) { return pool_.local(place, name_.ptr()); }
  size_t path(int place) { return source(place)->path; }
  static std::vector<std::string> printed(const std::vector<const source::Source*>& sources) {
    std::vector<std::string> texts;
    for (const source::Source* source : sources) texts.push_back(source->print());
    return texts;
  }

  nb::str name_{"x"};
  nb::list kept_;
  trace::Policy policy_ = with_symbols();
  source::Pool pool_;
  TestValues values_;
  guards::FactList facts_{pool_};
  trace::Shapes shapes_;
  trace::VaryingNumbers numbers_{policy_, values_, facts_, shapes_, pool_};
  value::Value* last_ = nullptr;
};

/// A capture's counts under a budget.
class TestProgress {
 public:
  TestProgress(size_t budget, int depth) {
    policy_.max_instructions = budget;
    policy_.max_depth = depth;
  }
  void tick() { progress_.tick(); }
  void enter_call() { progress_.enter_call(); }
  void leave_call() { progress_.leave_call(); }
  int deepest() const { return progress_.deepest(); }
  bool is_deepest() const { return progress_.is_deepest(); }
  void stop_at(size_t step) { progress_.stop_at(step, Reason::Budget, "asked"); }
  std::optional<size_t> stops_at() const {
    return progress_.stops_at() == SIZE_MAX ? std::nullopt : std::optional(progress_.stops_at());
  }

 private:
  trace::Policy policy_;
  trace::Progress progress_{policy_};
};

}  // namespace

void bind_parts_testing(nb::module_& m) {
  nb::class_<TestFacts>(m, "TestFacts")
      .def(nb::init<>())
      .def("is_", &TestFacts::is, "place"_a, "object"_a, "same"_a = true)
      .def("pinned_is", &TestFacts::pinned_is)
      .def("type", &TestFacts::type)
      .def("absent", &TestFacts::absent)
      .def("absent_of", &TestFacts::absent_of)
      .def("length", &TestFacts::length)
      .def("between", &TestFacts::between)
      .def("exempt", &TestFacts::exempt)
      .def("is_exempt", &TestFacts::is_exempt)
      .def("nest", &TestFacts::nest)
      .def("all", &TestFacts::all);
  nb::class_<TestValues>(m, "TestValues")
      .def(nb::init<>())
      .def("constant", &TestValues::constant_of, nb::arg().none())
      .def("literal", &TestValues::literal_of)
      .def("adopt", &TestValues::adopt_of)
      .def("lazy", &TestValues::lazy)
      .def("see", &TestValues::seen)
      .def("looks", &TestValues::looks)
      .def("kind", &TestValues::kind)
      .def("is_literal", &TestValues::is_literal)
      .def("held", &TestValues::held)
      .def("nest", &TestValues::nest)
      .def("collect", &TestValues::collect)
      .def("add", &TestValues::add)
      .def("discard", &TestValues::discard)
      .def("pop", &TestValues::pop)
      .def("members", &TestValues::members)
      .def("real", &TestValues::real);
  nb::class_<TestObjects>(m, "TestObjects")
      .def(nb::init<>())
      .def("add", &TestObjects::add)
      .def("knows", &TestObjects::knows)
      .def("pins", &TestObjects::pins)
      .def("note_dict_of", &TestObjects::note_dict_of)
      .def("refuse_as_dict", &TestObjects::refuse_as_dict)
      .def("has_variables", &TestObjects::has_variables)
      .def("count", &TestObjects::count);
  nb::class_<TestNumbers>(m, "TestNumbers")
      .def(nb::init<>())
      .def("saw", &TestNumbers::saw)
      .def("saw_tensor", &TestNumbers::saw_tensor)
      .def("needed", &TestNumbers::needed)
      .def("at", &TestNumbers::at)
      .def("specialize", &TestNumbers::specialize)
      .def("facts", &TestNumbers::facts)
      .def("sizes", &TestNumbers::sizes)
      .def("specialized", &TestNumbers::specialized)
      .def("varying", &TestNumbers::varying)
      .def("zeros", &TestNumbers::zeros);
  nb::class_<TestProgress>(m, "TestProgress")
      .def(nb::init<size_t, int>(), "budget"_a, "depth"_a)
      .def("tick", &TestProgress::tick)
      .def("enter_call", &TestProgress::enter_call)
      .def("leave_call", &TestProgress::leave_call)
      .def("deepest", &TestProgress::deepest)
      .def("is_deepest", &TestProgress::is_deepest)
      .def("stop_at", &TestProgress::stop_at)
      .def("stops_at", &TestProgress::stops_at);
}

}  // namespace gramme::api
