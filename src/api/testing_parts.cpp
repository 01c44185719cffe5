// Test-only bindings of the parts of a capture, each without one.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/testing.h"
#include "api/testing_values.h"
#include "guards/fact_list.h"
#include "meta/record.h"
#include "trace/progress.h"
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
