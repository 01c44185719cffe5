// Evaluating a plan in order of cost: roots with a single identity check, leaf arguments, global state, then the bound
// parts, relations and numbers.
#include "plan/guard_plan.h"

#include <algorithm>
#include <chrono>

#include "plan/basis.h"
#include "plan/bindings.h"
#include "plan/distinct.h"
#include "plan/shape_check.h"
#include "plan/walk.h"

namespace gramme::plan {

std::vector<std::string> GuardDescription::print() const {
  std::vector<std::string> lines;
  for (const guards::Fact& fact : facts) lines.push_back(fact.print());
  for (std::string& line : shapes.print()) lines.push_back(std::move(line));
  return lines;
}

namespace {

/// Seconds of one check: the shortest of several timed batches.
template <class Check>
double shortest(Check check) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 8, kChecks = 16;
  Clock::duration least = Clock::duration::max();
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kChecks; ++i)
      if (!check()) return 0;
    least = std::min(least, Clock::now() - start);
  }
  return std::chrono::duration<double>(least).count() / kChecks;
}

}  // namespace

struct GuardPlan::Impl {
  explicit Impl(Owned<Basis> shared) : basis(std::move(shared)) {
    if (!description.shapes.empty()) shapes.emplace(description.shapes, program);
    if (program.pinned_end) parts.emplace_back(checking, 0, program.pinned_end);
    for (uint32_t root : program.roots) {
      const Step& step = program.steps[root];
      if (step.kind == source::Kind::Pinned) continue;
      if (step.end == root + 1 && step.base < 0)
        add_alone(root, step);
      else
        parts.emplace_back(checking, root, step.end);
    }
  }

  /// A root that must be one particular object, such as a frame's function.
  struct Known {
    const Step* step;
    PyObject* expected;
    uint32_t root;
  };

  /// Adds a root without children.
  void add_alone(uint32_t root, const Step& step) {
    const Check* check = program.checks.data() + step.first_check;
    if (step.check_count == 1 && !step.spec && !step.absent && check->kind == guards::Kind::Identity)
      known.push_back({&step, check->object, root});
    else
      leaves.push_back(root);
  }

  bool check_known(const Roots& roots) {
    for (const Known& each : known) {
      if (read_root(*each.step, roots) != each.expected) return false;
      checking.registers[each.root] = each.expected;
    }
    return true;
  }

  bool check_leaf(uint32_t root, const Roots& roots) {
    const Step& step = program.steps[root];
    PyObject* object = checking.registers[root] = read_root(step, roots);
    return object ? !step.absent && passes(program, step, object) : step.absent;
  }

  /// Checks roots without children (tensors and constants given as arguments); the last to fail is tried first.
  bool check_leaves(const Roots& roots) {
    if (last_failed < leaves.size() && !check_leaf(leaves[last_failed], roots)) return false;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (i == last_failed || check_leaf(leaves[i], roots)) continue;
      last_failed = i;
      return false;
    }
    return true;
  }

  [[gnu::hot]] bool check_part(Bindings& part, const Roots& roots) {
    const Step& step = program.steps[part.begin()];
    if (step.kind == source::Kind::Pinned) return part.check(nullptr);
    if (step.base < 0) return part.check(read_root(step, roots));
    PyObject* root;
    const Outcome outcome = read_child(step, checking.registers[static_cast<size_t>(step.base)], &root);
    return outcome == (step.absent ? Outcome::Absent : Outcome::Found) && part.check(root);
  }

  [[gnu::hot]] bool check(const Roots& roots, PyObject** reads, Dropped& released) {
    bool held = evaluate(roots);
    if (Dropped& dropped = checking.dropped; !dropped.empty()) [[unlikely]] {
      released.insert(released.end(), std::move_iterator(dropped.begin()), std::move_iterator(dropped.end()));
      dropped.clear();
    }
    if (shapes) [[unlikely]]
      held = held && shapes->holds(checking.registers.data()) && shapes->give(reads + program.reads.size());
    if (held)
      for (uint32_t index : program.reads) *reads++ = share(checking.registers[index]).release();
    if (!reading->made.empty()) [[unlikely]]
      reading->made.clear();
    return held;
  }

  [[gnu::hot, gnu::always_inline]] bool evaluate(const Roots& roots) {
    ++checking.checks;
    if (!check_known(roots) || !check_leaves(roots) || !(aten::GlobalState::read() == description.state)) return false;
    for (Bindings& part : parts)
      if (!check_part(part, roots)) return false;
    return !relates || relations_hold(checking.registers.data());
  }

  /// Checks facts about several objects, and the intervals of numbers.
  [[gnu::always_inline]] bool relations_hold(PyObject* const* registers) {
    for (const Relation& relation : program.relations)
      if (!holds(relation, registers)) return false;
    for (const Content& content : program.contents)
      if (!holds(content, registers)) return false;
    if (!distinct.holds(registers)) return false;
    return program.apart.empty() || aten::all_apart(registers, program.apart, places, program.apart_steady);
  }

  bool holds_numbers() { return !shapes || shapes->holds(checking.registers.data()); }

  bool roots_hold(const Roots& roots) const {
    if (!(aten::GlobalState::read() == description.state)) return false;
    for (uint32_t root : program.roots) {
      const Step& step = program.steps[root];
      if (step.kind == source::Kind::Pinned || step.base >= 0) continue;
      PyObject* const object = read_root(step, roots);
      if (object ? step.absent || !passes(program, step, object) : !step.absent) return false;
    }
    return true;
  }

  Mismatch explain(const Roots& roots) const {
    WithoutCollection no_finalizers;
    Mismatch why = first_failing(roots);
    reading->made.clear();
    return why;
  }

  Mismatch first_failing(const Roots& roots) const {
    aten::GlobalState now = aten::GlobalState::read();
    if (!(now == description.state)) return {Mismatched::Mode, "", description.state.explain_difference(now)};
    std::vector<PyObject*> values(program.steps.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const Step& step = program.steps[i];
      Outcome outcome;
      if (step.base < 0) {
        values[i] = read_root(step, roots);
        outcome = values[i] ? Outcome::Found : Outcome::Absent;
      } else {
        PyObject* base = values[static_cast<size_t>(step.base)];
        outcome = base ? read_child(step, base, &values[i]) : Outcome::Unreadable;
      }
      if (Mismatch why = explain_step(program, step, outcome, values[i])) return why;
    }
    for (const Relation& relation : program.relations)
      if (!holds(relation, values.data())) return explain_relation(program, relation);
    for (const Content& content : program.contents)
      if (!holds(content, values.data())) return explain_content(program, content, values.data());
    if (auto same = distinct.same(values.data()))
      return explain_relation(program, {guards::Kind::NotSameAs, same->first, same->second});
    for (uint32_t a : program.apart)
      for (uint32_t b : program.apart) {
        Relation relation{guards::Kind::NoOverlap, a, b};
        if (a < b && !holds(relation, values.data())) return explain_relation(program, relation);
      }
    return shapes ? shapes->explain(description.shapes, values.data()) : Mismatch();
  }

  /// Measures in the order of evaluate(), because parts read registers filled by earlier ones.
  void measure(const Roots& roots, Dropped& dropped) {
    costs.clear();
    if (!evaluate(roots) || !holds_numbers()) return;
    PyObject* const* registers = checking.registers.data();
    auto add = [&](std::string what, auto check) { costs.push_back({std::move(what), shortest(check)}); };
    if (!known.empty() || !leaves.empty())
      add("arguments without parts", [&] { return check_known(roots) && check_leaves(roots); });
    add("modes", [&] { return aten::GlobalState::read() == description.state; });
    for (Bindings& part : parts) {
      const Step& root = program.steps[part.begin()];
      add(root.kind == source::Kind::Pinned ? "objects that the segment holds" : root.source->print(),
          [&] { return check_part(part, roots); });
    }
    if (relates) add("objects that are one or share memory", [&] { return relations_hold(registers); });
    if (shapes) add("sizes and numbers", [&] { return holds_numbers(); });
    reading->made.clear();
    dropped.insert(dropped.end(), std::move_iterator(checking.dropped.begin()),
                   std::move_iterator(checking.dropped.end()));
    checking.dropped.clear();
  }

  Owned<Basis> basis;
  const GuardDescription& description = basis->description;
  const Program& program = basis->program;
  Checking checking{program};
  const bool relates = !program.relations.empty() || !program.contents.empty() || !program.distinct.empty() ||
                       !program.apart.empty();  // relations_hold() has something to do
  std::optional<ShapeCheck> shapes;             // nullopt if no guard is about numbers
  std::vector<Known> known;
  std::vector<uint32_t> leaves;  // other roots without children
  std::vector<Bindings> parts;   // roots with children; pinned objects are one part
  Distinct distinct{checking, parts};
  std::vector<uintptr_t> places;  // addresses of program.apart's tensors when they last held
  size_t last_failed = SIZE_MAX;
  std::vector<Cost> costs;
};

GuardPlan::GuardPlan(GuardDescription description)
    : impl_(std::make_unique<Impl>(make_basis(std::move(description)))),
      object_count_(impl_->description.object_count()) {}
GuardPlan::GuardPlan(const GuardPlan& other)
    : impl_(std::make_unique<Impl>(other.impl_->basis)), object_count_(other.object_count_) {}
GuardPlan::~GuardPlan() = default;

template <class Change>
void GuardPlan::change(Change&& change) {
  GuardDescription description = take_description(std::move(impl_->basis));
  change(description);
  impl_ = std::make_unique<Impl>(make_basis(std::move(description)));
}

void GuardPlan::require(std::vector<guards::Fact> more) {
  change([&](GuardDescription& description) {
    for (guards::Fact& fact : more) description.facts.push_back(std::move(fact));
  });
}

void GuardPlan::replace(std::vector<guards::Fact> facts) {
  change([&](GuardDescription& description) { description.facts = std::move(facts); });
}

void GuardPlan::require(std::vector<guards::ShapeGuards::Condition> more) {
  change([&](GuardDescription& description) {
    for (auto& condition : more) description.shapes.conditions.push_back(std::move(condition));
  });
}

[[gnu::hot]] bool GuardPlan::check(const Roots& roots, PyObject** reads, Dropped& dropped) {
  return impl_->check(roots, reads, dropped);
}
Mismatch GuardPlan::explain(const Roots& roots) const { return impl_->explain(roots); }
void GuardPlan::measure(const Roots& roots, Dropped& dropped) { impl_->measure(roots, dropped); }
const std::vector<GuardPlan::Cost>& GuardPlan::costs() const { return impl_->costs; }
bool GuardPlan::may_hold(const Roots& roots) const { return impl_->roots_hold(roots); }
Dropped GuardPlan::unbind() {
  for (Bindings& part : impl_->parts) part.unbind();
  return std::exchange(impl_->checking.dropped, {});
}
const GuardDescription& GuardPlan::description() const { return impl_->description; }
Owned<> GuardPlan::keep(Owned<> kept) { return std::exchange(impl_->basis->kept, std::move(kept)); }
PyObject* GuardPlan::kept() const { return impl_->basis->kept.get(); }
PyObject* GuardPlan::basis() const { return reinterpret_cast<PyObject*>(impl_->basis.get()); }

GuardPlan::Statistics GuardPlan::statistics() const {
  const GuardDescription& description = impl_->description;
  const size_t facts =
      description.facts.size() + description.shapes.properties.size() + description.shapes.conditions.size();
  Statistics result{facts, 0, 0, impl_->checking.walks, impl_->checking.rebinds};
  for (const Step& step : impl_->program.steps) result.tensors += step.spec != nullptr;
  for (const Bindings& part : impl_->parts) result.words += part.words();
  return result;
}

}  // namespace gramme::plan
