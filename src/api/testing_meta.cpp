// Test-only bindings of the room meta: ask for the metadata of calls from Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <map>

#include "api/testing.h"
#include "api/testing_calls.h"
#include "meta/fill.h"
#include "meta/numbers.h"
#include "meta/rules.h"
#include "meta/statistics.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

using meta::Argument;

/// An int, or the text of an expression.
nb::object size(shape::SymInt number) {
  if (number.is_number()) return nb::int_(*number.number());
  return nb::str(shape::print(number).c_str());
}

nb::object sizes(const std::vector<shape::SymInt>& values) {
  nb::list list;
  for (shape::SymInt value : values) list.append(size(value));
  return nb::tuple(list);
}

/// A record and an expression, as Python objects for tests.
struct RecordRef {
  const meta::Record* record;
};
struct ExprRef {
  shape::Expr expr;
};

nb::dict describe(const meta::Record& record) {
  nb::dict d;
  d["type"] = borrow(reinterpret_cast<PyObject*>(record.type));
  d["dtype"] = borrow(meta::dtype_object(record));
  d["device"] = borrow(meta::device_object(record));
  d["layout"] = borrow(meta::layout_object(record));
  d["shape"] = sizes(record.sizes);
  d["stride"] = sizes(record.strides);
  d["offset"] = size(record.storage_offset);
  d["requires_grad"] = record.requires_grad;
  d["is_leaf"] = record.is_leaf;
  d["is_inference"] = record.is_inference;
  d["is_conj"] = record.is_conj;
  d["is_neg"] = record.is_neg;
  return d;
}

nb::dict describe(const meta::Result& result) {
  static constexpr const char* kKinds[] = {"tensor", "constant", "number", "sequence"};
  nb::dict d;
  d["kind"] = kKinds[result.kind];
  if (result.record) d["record"] = describe(*result.record);
  if (result.record) d["ref"] = RecordRef{result.record};
  if (result.object) d["object"] = borrow(result.object.get());
  if (result.expr) d["expr"] = shape::print(result.expr);
  if (result.expr) d["ref"] = ExprRef{result.expr};
  d["same_as"] = result.same_as;
  d["view_of"] = result.view_of;
  nb::list items;
  for (const meta::Result& item : result.items) items.append(describe(item));
  d["items"] = items;
  return d;
}

nb::dict describe(const meta::Outcome& outcome) {
  nb::dict d;
  d["result"] = describe(outcome.result);
  nb::dict mutations;
  for (const meta::Mutation& mutation : outcome.mutations)
    mutations[nb::int_(mutation.leaf)] = describe(*mutation.record);
  d["mutations"] = mutations;
  d["random"] = outcome.random;
  d["data_dependent"] = outcome.data_dependent;
  d["may_raise"] = outcome.may_raise;
  d["error"] = outcome.error;
  d["message"] = outcome.message;
  nb::list guards;
  for (shape::Expr guard : outcome.guards) guards.append(shape::print(guard));
  d["guards"] = guards;
  return d;
}

nb::dict infer(nb::object target, nb::args args, nb::kwargs kwargs) {
  Arena arena;
  meta::Call call = Caller(arena).call(target, args, kwargs);
  return guarded([&] { return describe(meta::infer(call)); });
}

/// Symbols for the sizes of tensors.
class Sizes {
 public:
  /// `symbols` has the number of a symbol for some dimensions.
  SymbolicTensor tensor(nb::object tensor, const std::map<int, int>& symbols) {
    const meta::Record* record = meta::record_of(tensor.ptr());
    std::vector<shape::Expr> sizes(record->sizes.size());
    for (const auto& [dim, number] : symbols)
      sizes.at(static_cast<size_t>(dim)) = symbol(number, meta::known(record->sizes.at(static_cast<size_t>(dim))));
    return {tensor, meta::symbolic_record(record, sizes, assumptions_)};
  }
  SymbolicNumber number(nb::int_ example, int number) { return {example, symbol(number, nb::cast<int64_t>(example))}; }
  nb::dict infer(nb::object target, nb::args args, nb::kwargs kwargs) {
    Arena arena;
    meta::Call call = Caller(arena).call(target, args, kwargs);
    return guarded([&] { return describe(meta::infer(call, {}, &assumptions_)); });
  }
  /// The values of all symbols now.
  std::vector<int64_t> hints() {
    std::vector<int64_t> values;
    for (size_t k = 0; k < assumptions_.symbol_count(); ++k)
      values.push_back(assumptions_.hint(shape::symbol(static_cast<int64_t>(k))).value_or(0));
    return values;
  }
  /// Infers a call on fakes, without the memo and without rules.
  nb::dict fill(nb::object target, nb::args args, nb::kwargs kwargs) {
    Arena arena;
    meta::Call call = Caller(arena).call(target, args, kwargs);
    return guarded([&] { return describe(meta::fill(call, {}, &assumptions_).outcome); });
  }
  /// Infers a call by its rule only; None if there is none.
  nb::object rule(nb::object target, nb::args args, nb::kwargs kwargs) {
    Arena arena;
    meta::Call call = Caller(arena).call(target, args, kwargs);
    return guarded([&]() -> nb::object {
      const auto outcome = meta::by_rule(call, {}, assumptions_);
      return outcome ? nb::object(describe(*outcome)) : nb::none();
    });
  }

 private:
  shape::Expr symbol(int number, int64_t hint) {
    shape::Expr& known = symbols_[number];
    if (!known) known = assumptions_.add_symbol({1, shape::Range::kNoHigh}, hint);
    return known;
  }

  shape::Assumptions assumptions_;
  std::map<int, shape::Expr> symbols_;
};

/// For each number of the call, whether the Outcome depends on its value.
std::vector<bool> depends_on_numbers(nb::object target, nb::args args, nb::kwargs kwargs) {
  Arena arena;
  meta::Call call = Caller(arena).call(target, args, kwargs);
  std::vector<bool> result;
  meta::each_number(call, [&](const Argument&, bool depends) { result.push_back(depends); });
  return result;
}

/// General hits, rules, fills; seconds of rules and of fills.
nb::tuple symbolic_statistics() {
  const meta::SymbolicStatistics& s = meta::symbolic_statistics();
  return nb::make_tuple(s.general_hits, s.rules, s.fills, s.rule_seconds, s.fill_seconds);
}

nb::tuple infer_statistics() {
  meta::InferStatistics s = meta::infer_statistics();
  return nb::make_tuple(s.hits, s.misses, s.miss_seconds);
}

}  // namespace

void bind_meta_testing(nb::module_& m) {
  nb::class_<Ref>(m, "Ref");
  nb::class_<RunTimeNumber>(m, "RunTimeNumber")
      .def(
          "__init__",
          [](RunTimeNumber* self, nb::object example, double bound) {
            new (self) RunTimeNumber{std::move(example), bound};
          },
          "example"_a, "bound"_a = HUGE_VAL);
  nb::class_<RecordRef>(m, "RecordRef");
  nb::class_<SymbolicTensor>(m, "SymbolicTensor")
      .def("__init__", [](SymbolicTensor* self, nb::object tensor,
                          RecordRef ref) { new (self) SymbolicTensor{std::move(tensor), ref.record}; })
      .def_prop_ro("record", [](const SymbolicTensor& self) { return describe(*self.record); });
  nb::class_<ExprRef>(m, "ExprRef");
  nb::class_<SymbolicNumber>(m, "SymbolicNumber")
      .def("__init__", [](SymbolicNumber* self, nb::object example, ExprRef ref) {
        new (self) SymbolicNumber{std::move(example), ref.expr};
      });
  nb::class_<Sizes>(m, "Sizes")
      .def(nb::init<>())
      .def("tensor", &Sizes::tensor, "tensor"_a, "symbols"_a)
      .def("number", &Sizes::number, "example"_a, "symbol"_a)
      .def("infer", &Sizes::infer)
      .def("hints", &Sizes::hints)
      .def("fill", &Sizes::fill)
      .def("rule", &Sizes::rule);
  m.def("depends_on_numbers", depends_on_numbers);
  m.def("infer", infer);
  m.def("infer_statistics", infer_statistics);
  m.def("symbolic_statistics", symbolic_statistics);
}

}  // namespace gramme::api
