#include "backend/captured.h"

#include <stdexcept>
#include <unordered_map>

#include "meta/fakes.h"

namespace gramme::backend {
namespace {

using source::Source;

/// Rows of sources, numbered in the order of first use.
class Rows {
 public:
  explicit Rows(const plan::GuardDescription& guards) {
    for (const guards::Fact& fact : guards.facts) {
      if (fact.kind == guards::Kind::Type) types_[fact.source] = fact.object.get();
      if (fact.kind == guards::Kind::Tensor) types_[fact.source] = reinterpret_cast<PyObject*>(fact.spec->type);
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

}  // namespace

const trace::Trace& Captured::trace() const { return open(trace_); }

const plan::GuardDescription& Captured::guards() const { return open(guards_); }

bool Captured::has_numbers() const {
  for (const graph::Node* node : placeholders())
    if (!node->record) return true;
  return false;
}

bool Captured::has_aliased_writes() const {
  if (!trace().scope().inputs_written()) return false;
  std::vector<PyObject*> objects;
  std::vector<uint32_t> all;
  for (const graph::Node* node : placeholders()) {
    if (!node->record) continue;
    all.push_back(static_cast<uint32_t>(objects.size()));
    objects.push_back(trace().scope().input(node));
  }
  std::vector<uintptr_t> addresses;
  if (aten::all_apart(objects.data(), all, addresses)) return false;
  bool found = false;
  trace().scope().each_written_input([&](PyObject* written) {
    for (PyObject* object : objects) found |= object != written && aten::overlap(object, written);
  });
  return found;
}

Owned<> Captured::sources() const {
  Rows rows(guards());
  Owned<> of_inputs = take(PyList_New(0));
  for (const graph::Node* node : placeholders())
    check(PyList_Append(of_inputs.get(), take(PyLong_FromLong(rows.row(node->source))).get()));
  return take(PyTuple_Pack(2, rows.list().get(), of_inputs.get()));
}

Owned<> Captured::examples(PyObject* mode) const {
  meta::Fakes fakes(share(mode));
  Owned<> result = take(PyList_New(0));
  auto add = [&](const std::vector<graph::Node*>& nodes) {
    for (const graph::Node* node : nodes)
      check(PyList_Append(result.get(), node->record ? fakes.fake(node->record, 0).get() : Py_None));
  };
  add(placeholders());
  add(trace().scope().graph().nodes());
  check(PyList_Append(result.get(), Py_None));  // output
  return result;
}

}  // namespace gramme::backend
