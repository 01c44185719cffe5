// Test-only bindings of what a capture knows of objects, classes and exceptions, and of what confines it, each without
// a capture.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <map>
#include <memory>
#include <set>

#include "api/testing.h"
#include "api/testing_values.h"
#include "trace/classes.h"
#include "trace/confined.h"
#include "trace/exceptions.h"
#include "trace/known_objects.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

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

/// What a capture knows of classes, with the parts that it needs.
class WithClasses {
 protected:
  source::Pool pool_;
  TestValues values_;
  guards::FactList facts_{pool_};
  trace::KnownObjects objects_{values_, pool_};
  trace::Confinement confinement_{values_};
  trace::Classes classes_{values_, objects_, facts_, confinement_, pool_};
};

/// Real classes, and what a program writes to them.
class TestClasses : WithClasses {
 public:
  nb::object lookup(nb::object type, nb::object name) {
    PyObject* found = classes_.lookup(type_of(type), interned(name));
    return found ? nb::borrow(found) : nb::none();
  }
  bool is_subtype(nb::object type, nb::object base) { return classes_.is_subtype(type_of(type), type_of(base)); }
  /// Without an object the attribute is deleted. True if it moved to the end of the names.
  bool store(nb::object type, nb::object name, nb::object object) {
    PyObject* raw = object.is_none() ? nullptr : values_.keep(share(object.ptr()));
    return classes_.store(class_of(type), interned(name), raw ? values_.constant(raw) : nullptr, raw);
  }
  /// A class that the program makes, with one attribute.
  void add(nb::object type, nb::object name, nb::object object) {
    PyObject* raw = values_.keep(share(object.ptr()));
    value::Attributes attributes;
    attributes.push_back({interned(name), values_.constant(raw)});
    classes_.add(share(type.ptr()), std::move(attributes), {raw});
  }
  bool is_made(nb::object type) const { return classes_.is_made(type_of(type)); }
  bool any_written() const { return classes_.any_written(); }
  size_t facts() const { return facts_.all().size(); }

 private:
  static PyTypeObject* type_of(const nb::object& type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }
  PyObject* interned(const nb::object& name) {
    PyObject* interned = share(name.ptr()).release();
    PyUnicode_InternInPlace(&interned);
    return values_.keep(Owned<>::steal(interned));
  }
  value::Class* class_of(const nb::object& type) {
    if (value::Value* known = objects_.find(type.ptr())) return value::as<value::Class>(known);
    auto* made = values_.make<value::Class>(pool_.pinned(type.ptr()), type.ptr());
    objects_.add(type.ptr(), made);
    return made;
  }
};

/// A body that may change only what it makes.
class TestConfinement {
 public:
  ~TestConfinement() {
    while (!confined_.empty()) leave();
  }
  size_t make() { return add(values_.make<value::Object>()); }
  void enter() { confined_.push_back(std::make_unique<trace::Confined>(confinement_, nullptr)); }
  void leave() { confined_.pop_back(); }
  bool any() const { return confinement_.any(); }
  void change(size_t value) { confinement_.changes(values_made_.at(value)); }
  /// A change of the value's content, which is `before`, to `now`.
  void put(size_t value, int before, int now) {
    contents_.try_emplace(value, before);
    confinement_.changes(values_made_.at(value), nullptr,
                         [this, value] { return values_.integer(contents_.at(value)); });
    contents_[value] = now;
  }
  void check() { confined_.back()->check(); }

 private:
  size_t add(value::Value* made) {
    values_made_.push_back(made);
    return values_made_.size() - 1;
  }

  TestValues values_;
  trace::Confinement confinement_{values_};
  std::vector<value::Value*> values_made_;
  std::map<size_t, int> contents_;
  std::vector<std::unique_ptr<trace::Confined>> confined_;
};

/// Exceptions of a program, which are known by their numbers.
class TestExceptions : WithClasses {
 public:
  size_t make(nb::object type, const std::string& text) {
    return add(exceptions_.make(reinterpret_cast<PyTypeObject*>(type.ptr()), {values_.text(text)}));
  }
  void handle(std::optional<size_t> exception) { exceptions_.handled = exception ? made_.at(*exception) : nullptr; }
  void handle_outside(size_t exception) { exceptions_.outer_handled = made_.at(exception); }
  void raise(size_t exception) {
    caught([&] { exceptions_.raise(made_.at(exception)); });
  }
  /// A call raises the error, whose text may mention a size of this value.
  size_t fail(nb::object error, int64_t size) {
    size_ = shapes_.add(pool_.stack(0), {2, shape::Range::kNoHigh}, size);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    return add(caught([&] { exceptions_.raise_error_with({size_}); }));
  }
  void told(size_t exception) { exceptions_.told(made_.at(exception), nullptr); }
  bool is_fixed() { return shapes_.simplified(shape::SymInt(size_)).is_number(); }
  std::optional<size_t> context(size_t exception) const {
    const value::Value* context = made_.at(exception)->context;
    const auto known = std::ranges::find(made_, context);
    return context ? std::optional(static_cast<size_t>(known - made_.begin())) : std::nullopt;
  }
  bool leads_to(size_t from, size_t to) { return exceptions_.leads_to(made_.at(from), made_.at(to)); }

 private:
  size_t add(value::Object* exception) {
    made_.push_back(exception);
    return made_.size() - 1;
  }
  template <class Body>
  static value::Object* caught(Body&& body) {
    try {
      body();
    } catch (const value::UserError& error) {
      return static_cast<value::Object*>(error.exception);
    }
    return nullptr;
  }

  trace::Shapes shapes_;
  trace::Exceptions exceptions_{values_, confinement_, classes_, shapes_};
  std::vector<value::Object*> made_;
  shape::Expr size_ = nullptr;
};

}  // namespace

void bind_classes_testing(nb::module_& m) {
  nb::class_<TestObjects>(m, "TestObjects")
      .def(nb::init<>())
      .def("add", &TestObjects::add)
      .def("knows", &TestObjects::knows)
      .def("pins", &TestObjects::pins)
      .def("note_dict_of", &TestObjects::note_dict_of)
      .def("refuse_as_dict", &TestObjects::refuse_as_dict)
      .def("has_variables", &TestObjects::has_variables)
      .def("count", &TestObjects::count);
  nb::class_<TestClasses>(m, "TestClasses")
      .def(nb::init<>())
      .def("lookup", &TestClasses::lookup)
      .def("is_subtype", &TestClasses::is_subtype)
      .def("store", &TestClasses::store, "type"_a, "name"_a, "object"_a.none())
      .def("add", &TestClasses::add)
      .def("is_made", &TestClasses::is_made)
      .def("any_written", &TestClasses::any_written)
      .def("facts", &TestClasses::facts);
  nb::class_<TestConfinement>(m, "TestConfinement")
      .def(nb::init<>())
      .def("make", &TestConfinement::make)
      .def("enter", &TestConfinement::enter)
      .def("leave", &TestConfinement::leave)
      .def("any", &TestConfinement::any)
      .def("change", &TestConfinement::change)
      .def("put", &TestConfinement::put, "value"_a, "before"_a, "now"_a)
      .def("check", &TestConfinement::check);
  nb::class_<TestExceptions>(m, "TestExceptions")
      .def(nb::init<>())
      .def("make", &TestExceptions::make)
      .def("handle", &TestExceptions::handle, "exception"_a.none())
      .def("handle_outside", &TestExceptions::handle_outside)
      .def("raise_", &TestExceptions::raise)
      .def("fail", &TestExceptions::fail)
      .def("told", &TestExceptions::told)
      .def("is_fixed", &TestExceptions::is_fixed)
      .def("context", &TestExceptions::context)
      .def("leads_to", &TestExceptions::leads_to);
}

}  // namespace gramme::api
