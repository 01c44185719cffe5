// Lowers a description: builds a tree of its sources, lays it out in pre-order, and sorts facts into checks, relations
// and conditions on numbers.
#include "plan/program.h"

#include <algorithm>

#include "base/error.h"
#include "cpython/objects.h"
#include "source/constant.h"

namespace gramme::plan {
namespace {

using guards::Fact;
using source::Source;
using GuardKind = guards::Kind;
using SourceKind = source::Kind;

/// What must be stamped of the base to read this child.
uint32_t child_needs(const Step& child) {
  const uint32_t needs = row(child.kind).needs | kType;
  if (child.evidence == Evidence::Unstamped) return needs | kUnstamped;
  return child.absent ? needs | kKeys : needs;  // only the full set of keys shows that one is absent
}

/// The source of the object that a number is read from.
const Source* object_of(const Source* number) { return source::is_number(number->kind) ? number->base : number; }

struct Node {
  const Source* source;
  std::vector<Node*> children;
  std::vector<const Fact*> facts;
};

/// Builds the tree of sources in the order of first use and lays it out in pre-order.
class Lowering {
 public:
  Lowering(const GuardDescription& description, Program& program)
      : program_(program), nodes_(description.pool->size()) {
    for (const Fact& fact : description.facts) {
      if (!guards::is_complete(fact)) GRAMME_BUG("a fact without its operand: " + fact.source->print());
      node_of(fact.source)->facts.push_back(&fact);
      if (fact.other) node_of(fact.other);
    }
    for (const Source* source : description.reads) node_of(source);
    for (const Source* source : description.shapes.symbols)
      if (source) node_of(object_of(source));
    for (const auto& property : description.shapes.properties) node_of(object_of(property.source));
    std::stable_partition(roots_.begin(), roots_.end(), [](Node* n) { return n->source->kind == SourceKind::Pinned; });
    registers_.resize(nodes_.size());
    for (Node* root : roots_) {
      program_.roots.push_back(static_cast<uint32_t>(program_.steps.size()));
      emit(*root, -1);
      if (root->source->kind == SourceKind::Pinned) program_.pinned_end = static_cast<uint32_t>(program_.steps.size());
    }
    for (size_t i = 0; i < read_ahead_.size(); ++i) {  // their children follow
      program_.roots.push_back(static_cast<uint32_t>(program_.steps.size()));
      emit(*read_ahead_[i], static_cast<int32_t>(register_of(read_ahead_[i]->source->base)));
    }
    for (const Fact& fact : description.facts) join(fact);
    std::sort(program_.apart.begin(), program_.apart.end());
    program_.apart.erase(std::unique(program_.apart.begin(), program_.apart.end()), program_.apart.end());
    const auto first_varying = std::stable_partition(program_.apart.begin(), program_.apart.end(), [&](uint32_t index) {
      const aten::TensorSpec* spec = program_.steps[index].spec;
      return spec && !spec->varies();
    });
    program_.apart_steady = static_cast<size_t>(first_varying - program_.apart.begin());
    for (const Source* source : description.reads) program_.reads.push_back(register_of(source));
    for (const Source* source : description.shapes.symbols)
      program_.symbols.push_back(source ? number(source) : Number{SourceKind::Pinned, 0, 0});
    for (const auto& property : description.shapes.properties) program_.properties.push_back(number(property.source));
    check_all_compared();
  }

 private:
  Node* node_of(const Source* source) {
    std::unique_ptr<Node>& node = nodes_[source->id];
    if (node) return node.get();
    node.reset(new Node{source, {}, {}});
    Node* made = node.get();
    (source->base ? node_of(source->base)->children : roots_).push_back(made);
    return made;
  }
  uint32_t register_of(const Source* source) const { return registers_[source->id]; }

  Number number(const Source* source) const {
    const Number number{source->kind, register_of(object_of(source)), source->index};
    if (!(source::is_number(source->kind) ? has_number(number) : is_int(program_.steps[number.of])))
      GRAMME_BUG("no fact says that there is such a number: " + source->print());
    return number;
  }

  bool has_number(const Number& number) const {
    const aten::TensorSpec* spec = program_.steps[number.of].spec;
    if (!spec || number.kind == SourceKind::OffsetOf) return spec;
    const auto& numbers = number.kind == SourceKind::SizeOf ? spec->tensor->sizes : spec->tensor->strides;
    return number.dimension >= 0 && static_cast<size_t>(number.dimension) < numbers.size();
  }

  bool is_int(const Step& step) const {
    const auto first = program_.checks.begin() + step.first_check;
    return std::any_of(first, first + step.check_count, [](const Check& check) {
      if (check.kind == GuardKind::Constant) return PyLong_CheckExact(check.object) != 0;
      const bool of_type = check.kind == GuardKind::Type || check.kind == GuardKind::Narrow;
      return of_type && check.object == reinterpret_cast<PyObject*>(&PyLong_Type);
    });
  }

  /// Handles facts that are not checks of one step.
  void join(const Fact& fact) {
    switch (row(fact.kind).role) {
      case Role::Distinct:
        return program_.distinct.push_back(register_of(fact.source));
      case Role::Others:
        return program_.others.push_back(register_of(fact.source));
      case Role::Content:
        return program_.contents.push_back(
            {register_of(fact.source), PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(fact.object.get(), 0)),
             PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(fact.object.get(), 1)), fact.number != 0});
      case Role::Apart:
        program_.apart.insert(program_.apart.end(), {register_of(fact.source), register_of(fact.other)});
        return;
      case Role::Relation:
        return program_.relations.push_back({fact.kind, register_of(fact.source), register_of(fact.other)});
      case Role::Nobody:
      case Role::Check:
      case Role::Leaf:
      case Role::Signature:
      case Role::Absent:
      case Role::Read:
        return;
    }
  }

  /// Asserts that every number left open by a tensor's signature is a symbol or has a required value.
  void check_all_compared() const {
    std::vector<std::pair<uint64_t, uint64_t>> left(program_.steps.size());
    for (size_t i = 0; i < left.size(); ++i)
      if (const aten::TensorSpec* spec = program_.steps[i].spec) left[i] = {spec->varying_sizes, spec->varying_strides};
    for (const auto* numbers : {&program_.symbols, &program_.properties})
      for (const Number& number : *numbers) {
        const uint64_t bit = number.dimension < 64 ? uint64_t(1) << number.dimension : 0;
        if (number.kind == SourceKind::SizeOf) left[number.of].first &= ~bit;
        if (number.kind == SourceKind::StrideOf) left[number.of].second &= ~bit;
      }
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i].first | left[i].second)
        GRAMME_BUG("a size or stride that nothing is known of: " + program_.steps[i].source->print());
  }

  void emit(const Node& node, int32_t base) {
    need_room();
    auto index = static_cast<uint32_t>(program_.steps.size());
    registers_[node.source->id] = index;
    Step step{.kind = node.source->kind,
              .evidence = row(node.source->kind).evidence,
              .base = base,
              .index = node.source->index,
              .key = node.source->key.get(),
              .source = node.source};
    if (step.kind == SourceKind::Value && !cpython::is_inert_key(step.key))
      GRAMME_BUG("a dict key whose comparison runs Python: " + node.source->print());
    step.first_check = static_cast<uint32_t>(program_.checks.size());
    for (const Fact* fact : node.facts) add_check(step, *fact);
    drop_implied_types(step);
    step.check_count = static_cast<uint32_t>(program_.checks.size()) - step.first_check;
    if (step.absent && (step.check_count || step.spec || !node.children.empty()))
      GRAMME_BUG("facts about an absent object: " + node.source->print());
    program_.steps.push_back(step);
    for (const Node* child : node.children) {
      if (is_read_ahead(child->source->kind)) {
        read_ahead_.push_back(child);
        program_.steps[index].needs |= kType;
        continue;
      }
      const size_t made = program_.steps.size();
      emit(*child, static_cast<int32_t>(index));
      program_.steps[index].needs |= child_needs(program_.steps[made]);
    }
    program_.steps[index].end = static_cast<uint32_t>(program_.steps.size());
  }

  void add_check(Step& step, const Fact& fact) {
    const GuardRow& says = row(fact.kind);
    switch (says.role) {
      case Role::Nobody:
      case Role::Read:  // implied: every step except an absent one must find an object
      case Role::Relation:
      case Role::Apart:
      case Role::Distinct:
      case Role::Others:
      case Role::Content:
        return;
      case Role::Absent:
        step.absent = true;
        return;
      case Role::Signature:
        if (step.spec && step.spec != fact.spec)
          GRAMME_BUG("two tensor signatures of one source: " + fact.source->print());
        step.spec = fact.spec;
        return;
      case Role::Leaf:
        step.constant = true;
        break;
      case Role::Check:
        break;
    }
    step.needs |= says.needs;
    for (size_t i = step.first_check; i < program_.checks.size(); ++i) {
      const Check& known = program_.checks[i];
      if (known.kind == fact.kind && known.object == fact.object.get() && known.number == fact.number) return;
    }
    program_.checks.push_back({fact.kind, fact.object.get(), fact.number});
  }

  /// Drops Type checks implied by a constant's or a tensor's check.
  void drop_implied_types(const Step& step) {
    auto first = program_.checks.begin() + step.first_check;
    PyObject* implied = step.spec ? reinterpret_cast<PyObject*>(step.spec->tensor->type) : nullptr;
    for (auto it = first; it != program_.checks.end(); ++it)
      if (it->kind == GuardKind::Constant) implied = reinterpret_cast<PyObject*>(Py_TYPE(it->object));
    program_.checks.erase(
        std::remove_if(first, program_.checks.end(),
                       [&](const Check& c) { return c.kind == GuardKind::Type && c.object == implied; }),
        program_.checks.end());
  }

  Program& program_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by source id
  std::vector<Node*> roots_;
  std::vector<const Node*> read_ahead_;
  std::vector<uint32_t> registers_;  // by source id
};

}  // namespace

Program::Program(const GuardDescription& description) { Lowering(description, *this); }

}  // namespace gramme::plan
