// Answers a backend's questions in Python objects: tables of sources and symbols, sizes computed on the backend's own
// symbols, properties of the graph. Records what the backend demands.
#include "backend/captured.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "aten/python.h"
#include "backend/computed.h"
#include "meta/sympy.h"

namespace gramme::backend {
namespace {

using source::Source;

/// Rows of sources, numbered in the order of first use.
class Rows {
 public:
  explicit Rows(const plan::GuardDescription& guards) {
    for (const guards::Fact& fact : guards.facts) {
      if (fact.kind == guards::Kind::Type) types_[fact.source] = fact.object.get();
      if (fact.kind == guards::Kind::Tensor) types_[fact.source] = reinterpret_cast<PyObject*>(fact.spec->tensor->type);
    }
  }

  int row(const Source* source) {
    auto known = numbers_.find(source);
    if (known != numbers_.end()) return known->second;
    const bool variable = static_cast<bool>(source->variable);
    int base = source->base && !variable ? row(source->base) : -1;
    auto type = types_.find(source);
    const bool local = source->kind == source::Kind::Local || source->kind == source::Kind::Stack;
    Owned<> name = variable ? source->variable : local ? source::variable_name(*source) : source->key;
    PyObject* key = name ? name.get() : Py_None;
    const char* kind = source::kind_name(variable || local ? source::Kind::Local : source->kind);
    Owned<> made = take(Py_BuildValue("(siOLO)", kind, base, key, static_cast<long long>(source->index),
                                      type == types_.end() ? Py_None : type->second));
    check(PyList_Append(rows_.get(), made.get()));
    int number = static_cast<int>(PyList_GET_SIZE(rows_.get())) - 1;
    numbers_[source] = number;
    return number;
  }

  const Owned<>& list() const { return rows_; }

 private:
  Owned<> rows_ = take(PyList_New(0));
  std::unordered_map<const Source*, int> numbers_;
  std::unordered_map<const Source*, PyObject*> types_;  // borrowed from the guards
};

template <class T>
const T& open(const T* asked) {
  if (!asked) throw std::runtime_error("the backend has returned: its graph's capture is gone");
  return *asked;
}

template <class Visit>
void each_symbol(shape::Expr e, Visit&& visit) {
  if (e->kind == shape::Kind::Symbol) visit(e);
  for (const shape::Operand& operand : e->operands) each_symbol(operand.of, visit);
}

}  // namespace

const graph::Graph& Captured::graph() const { return open(subject_.graph); }
const HandedOver& Captured::record() const { return open(subject_.record); }
const CallInputs& Captured::inputs() const { return open(subject_.inputs); }
const plan::GuardDescription& Captured::guards() const { return open(subject_.guards); }

bool Captured::has_numbers() const {
  for (const graph::Node* node : placeholders())
    if (!node->record && !node->symbol) return true;
  return false;
}

bool Captured::has_symbols() const {
  for (const graph::Node* node : placeholders())
    if (node->symbol) return true;
  return false;
}

bool Captured::has_aliased_writes() const { return backend::has_aliased_writes(record(), inputs()); }

bool Captured::uses_what_it_writes() const { return backend::uses_what_it_writes(record(), graph(), inputs()); }

bool Captured::records_gradients() const { return backend::records_gradients(record(), graph()); }

Owned<> Captured::names_read_later() const {
  Owned<> result = take(PyList_New(0));
  for (const trace::ReadLater::Name& each : record().names_read_later) {
    PyObject* name = each.name ? each.name : Py_None;
    check(PyList_Append(result.get(), take(PyTuple_Pack(2, each.holder.get(), name)).get()));
  }
  return result;
}

Owned<> Captured::places_read_later() const {
  const auto list = [](const std::vector<size_t>& places) {
    Owned<> result = take(PyList_New(0));
    for (size_t place : places) check(PyList_Append(result.get(), take(PyLong_FromSize_t(place)).get()));
    return result;
  };
  const Owned<> of_inputs = list(record().inputs_read_later), of_outputs = list(record().outputs_read_later);
  return take(PyTuple_Pack(2, of_inputs.get(), of_outputs.get()));
}

Owned<> source_rows(const plan::GuardDescription& guards, const std::vector<const Source*>& sources) {
  Rows rows(guards);
  Owned<> numbers = take(PyList_New(0));
  for (const Source* source : sources)
    check(PyList_Append(numbers.get(), take(PyLong_FromLong(rows.row(source))).get()));
  return take(PyTuple_Pack(2, rows.list().get(), numbers.get()));
}

Owned<> Captured::sources() const {
  std::vector<const Source*> sources;
  for (const graph::Node* node : placeholders()) sources.push_back(node->source);
  return source_rows(guards(), sources);
}

Owned<> Captured::symbols() {
  Owned<> result = take(PyList_New(0));
  for (size_t k = 0; k < guards().shapes.symbols.size(); ++k) check(PyList_Append(result.get(), Py_None));
  for (size_t i = 0; i < placeholders().size(); ++i) {
    const graph::Node& node = *placeholders()[i];
    if (!node.symbol) continue;
    const auto symbol = static_cast<size_t>(node.symbol->constant);
    const shape::Range range = known().range(node.symbol);
    auto bound = [](int64_t value, int64_t none) {
      return value == none ? share(Py_None) : take(PyLong_FromLongLong(value));
    };
    Owned<> lowest = bound(range.low, shape::Range::kNoLow), highest = bound(range.high, shape::Range::kNoHigh);
    Owned<> row = take(Py_BuildValue("(nOOOO)", static_cast<Py_ssize_t>(i), inputs().objects.at(i), lowest.get(),
                                     highest.get(), record().unbacked.at(symbol) ? Py_True : Py_False));
    check(PyList_SetItem(result.get(), node.symbol->constant, row.release()));
  }
  return result;
}

namespace {
/// A row of Captured::sizes(); null if a number has no form in Python.
Owned<> row_of(Computed& computed, const meta::Record& record) {
  if (!record.symbolic) return share(Py_None);
  Owned<> sizes = computed.list(record.sizes);
  Owned<> strides = sizes ? computed.list(record.strides) : Owned<>();
  PyObject* offset = strides ? computed.of(record.storage_offset) : nullptr;
  if (!offset) return {};
  Owned<> parts = take(PyList_New(0));
  for (const meta::Record* part : record.parts) {
    const Owned<> row = row_of(computed, *part);
    if (!row) return {};
    check(PyList_Append(parts.get(), row.get()));
  }
  return take(PyTuple_Pack(4, sizes.get(), strides.get(), offset, parts.get()));
}
}  // namespace

Owned<> Captured::sizes(PyObject* values) {
  Computed computed(values);
  Owned<> result = take(PyList_New(0));
  for (const graph::Node* node : placeholders()) {
    Owned<> row = node->record ? row_of(computed, *node->record) : share(Py_None);
    if (!row) fix(*node->record);
    check(PyList_Append(result.get(), row ? row.get() : Py_None));
  }
  return result;
}

Owned<> Captured::symbol_sources() const {
  std::vector<const Source*> known;
  for (const Source* source : guards().shapes.symbols)
    if (source) known.push_back(source);
  Owned<> rows = source_rows(guards(), known), numbers = take(PyList_New(0));
  Py_ssize_t next = 0;
  for (const Source* source : guards().shapes.symbols)
    check(PyList_Append(numbers.get(), source ? PyList_GET_ITEM(PyTuple_GET_ITEM(rows.get(), 1), next++) : Py_None));
  return take(PyTuple_Pack(2, PyTuple_GET_ITEM(rows.get(), 0), numbers.get()));
}

Owned<> Captured::guarded_sources() const {
  std::vector<const Source*> sources;
  for (const guards::Fact& fact : guards().facts)
    if (fact.kind == guards::Kind::Tensor || fact.kind == guards::Kind::Constant) sources.push_back(fact.source);
  return source_rows(guards(), sources);
}

Owned<> Captured::conditions(PyObject* values) const {
  const guards::ShapeGuards& shapes = guards().shapes;
  const std::vector<std::string> names = shapes.names();
  Computed computed(values);
  Owned<> result = take(PyList_New(0));
  for (const guards::ShapeGuards::Condition& condition : shapes.conditions) {
    PyObject* value = computed.of(condition.holds);
    Owned<> row = take(Py_BuildValue("(Oss)", value ? value : Py_None, condition.place.c_str(),
                                     shape::print(condition.holds, names).c_str()));
    check(PyList_Append(result.get(), row.get()));
  }
  return result;
}

std::string full_reason(const plan::Ending& ending) {
  return ending.detail.empty() ? ending.reason : ending.reason + ": " + ending.detail;
}

Owned<> Captured::reason() const {
  const plan::Ending& ending = open(subject_.ending);
  const std::string reason = full_reason(ending);
  return take(Py_BuildValue("(zsis)", ending.file.empty() ? nullptr : reason.c_str(), ending.file.c_str(),
                            ending.inner_line, ending.function.c_str()));
}

Examples Captured::examples() const { return Examples(graph()); }

shape::Assumptions& Captured::known() {
  if (known_) return *known_;
  const guards::ShapeGuards& shapes = guards().shapes;
  known_.emplace();
  for (const Source* source : shapes.symbols) {
    const int64_t lowest = source && source::is_number(source->kind) ? 0 : shape::Range::kNoLow;
    known_->add_symbol({lowest, shape::Range::kNoHigh}, std::nullopt);
  }
  for (const auto& condition : shapes.conditions) known_->learn(condition.holds);
  return *known_;
}

void Captured::require(shape::Expr condition) {
  if (known().decide(condition) == true) return;
  known().learn(condition);
  conditions_.push_back({condition, {}});
}

void Captured::require(PyObject* expressions, PyObject* names) {
  auto number = [&](PyObject* name) -> std::optional<int64_t> {
    PyObject* known = PyDict_GetItemWithError(names, name);  // borrowed
    return known ? std::optional(PyLong_AsLongLong(known)) : std::nullopt;
  };
  auto symbol = [&](PyObject* name) {
    const std::optional<int64_t> known = number(name);
    return known ? shape::symbol(*known) : nullptr;
  };
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(expressions); ++i) {
    PyObject* expression = PyList_GET_ITEM(expressions, i);
    const shape::Expr condition = meta::from_sympy(expression, symbol);
    if (condition && condition->type == shape::Type::Bool) {
      require(condition);
      continue;
    }
    Owned<> symbols = take(PySequence_List(take(PyObject_GetAttrString(expression, "free_symbols")).get()));
    for (Py_ssize_t s = 0; s < PyList_GET_SIZE(symbols.get()); ++s) {
      Owned<> name = take(PyObject_GetAttrString(PyList_GET_ITEM(symbols.get(), s), "name"));
      if (const std::optional<int64_t> known = number(name.get())) specialize(*known);
    }
  }
}

void Captured::require_range(int64_t symbol, PyObject* lowest, PyObject* highest) {
  const shape::Expr number = shape::symbol(symbol);
  if (lowest != Py_None) require(at_least(number, shape::constant(PyLong_AsLongLong(lowest))));
  if (highest != Py_None) require(at_most(number, shape::constant(PyLong_AsLongLong(highest))));
  if (PyErr_Occurred()) throw PythonError();
}

/// Makes the symbol a constant; strides and offsets are numbers wherever sizes are.
void Captured::specialize(int64_t symbol) {
  const Source* source = guards().shapes.symbols.at(static_cast<size_t>(symbol));
  auto add = [this](const Source* constant) {
    if (std::find(constants_.begin(), constants_.end(), constant) == constants_.end()) constants_.push_back(constant);
  };
  if (source->kind != source::Kind::StrideOf && source->kind != source::Kind::OffsetOf) return add(source);
  for (const graph::Node* node : placeholders()) {
    if (node->source != source->base || !node->record) continue;
    for (size_t d = 0; d < node->record->sizes.size(); ++d)
      add(guards().pool->child(source->base, source::Kind::SizeOf, static_cast<int64_t>(d)));
  }
}

void Captured::fix(const meta::Record& record) {
  meta::mapped(&record, [this](shape::SymInt number) {
    if (!number.is_number()) each_symbol(number.expr(), [this](shape::Expr symbol) { specialize(symbol->constant); });
    return number;
  });
}

void Captured::restart() {
  frozen_.clear();
  conditions_.clear();
  constants_.clear();
  known_.reset();
}

}  // namespace gramme::backend
