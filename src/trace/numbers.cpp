// Ints and floats that vary from call to call: which are taken as inputs of the graph, and what happens when the
// capture must know one after all.
#include <algorithm>

#include "source/constant.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

bool may_vary(const Source* source) {
  SK root = source->root()->kind;
  return root == SK::Local || root == SK::Stack || root == SK::Function;
}

namespace {

/// Was it another one at an earlier capture?
bool has_changed(const Policy& policy, PyObject* object, const Source* source) {
  if (policy.dynamic.contains(source->path)) return true;
  auto known = policy.numbers.find(source->path);
  return known != policy.numbers.end() && Py_TYPE(known->second.get()) == Py_TYPE(object) &&
         !source::same_constant(known->second.get(), object);
}

/// An int must be known to be narrow: what is computed from it must stay within 64 bits.
bool can_be_input(PyObject* object) { return PyFloat_CheckExact(object) || source::is_narrow(object); }

}  // namespace

/// A constant, unless it changed since an earlier capture. A float on the stack is what an instruction carried out for
/// real has just computed: it will be another one next time.
Value* Capture::number(PyObject* object, const Source* source) {
  bool computed = source->kind == SK::Stack && PyFloat_CheckExact(object);
  bool varies = can_be_input(object) && (computed || (may_vary(source) && has_changed(policy, object, source)));
  bool known = policy.specialized.contains(source->path) ||
               std::find(specialized_.begin(), specialized_.end(), source) != specialized_.end();
  if (!varies || known) {
    guard({source, guards::Kind::Constant, share(object)});
    return make<Constant>(source, object);
  }
  bool narrow = source::is_narrow(object);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  guard({source, narrow ? guards::Kind::Narrow : guards::Kind::Type, share(type)});
  dynamic_.push_back(source);
  auto* result = make<Number>(source, object);
  result->type = Py_TYPE(object);
  if (narrow) result->bound = source::kNarrow;
  return result;
}

void Capture::note_specialized(const Number* number) {
  guard({number->source, guards::Kind::Constant, share(number->object)});
  specialized_.push_back(number->source);
}

graph::Node* Scope::node(Number* number) {
  if (!number->node) {
    number->node = graph_.placeholder(number->source, nullptr, capture_.position());
    number->node->number_type = number->type;
    inputs_[number->node] = number->object;
    number_inputs_[number->node] = number;
  }
  return number->node;
}

namespace {

/// The inputs of the graph from which a number was computed; false if something else is below it too.
bool find_inputs(const graph::Node* node, std::unordered_set<const graph::Node*>& seen,
                 std::vector<const graph::Node*>& inputs) {
  if (!seen.insert(node).second) return true;
  if (node->kind == graph::Node::Placeholder) {
    inputs.push_back(node);
    return node->number_type != nullptr;
  }
  bool numbers = true;
  meta::each_leaf(node->call, [&](const meta::Argument& leaf) {
    numbers &= leaf.kind == meta::Argument::Number && find_inputs(leaf.node, seen, inputs);
  });
  return numbers;
}

}  // namespace

PyObject* Scope::specialize(Number* number) {
  if (number->source) {
    capture_.note_specialized(number);
  } else {
    std::unordered_set<const graph::Node*> seen;
    std::vector<const graph::Node*> inputs;
    if (!find_inputs(number->node, seen, inputs)) return nullptr;
    for (const graph::Node* input : inputs)
      if (Number* below = number_inputs_.at(input); below->kind == Kind::Number) specialize(below);
  }
  static_assert(sizeof(Constant) == sizeof(Value));  // whatever a Number has besides is not looked at any more
  number->kind = Kind::Constant;
  return number->object;
}

}  // namespace gramme::trace
