// Test-only bindings of the parts of a capture, each without one.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/testing.h"
#include "guards/fact_list.h"

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
}

}  // namespace gramme::api
