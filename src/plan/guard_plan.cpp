#include "plan/guard_plan.h"

#include <algorithm>

#include "plan/bound.h"
#include "plan/distinct.h"
#include "plan/program.h"
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

/// When to give up words for a root whose content is another one at every call, and when to try again.
class Stability {
 public:
  bool may_bind(uint64_t now) const { return now >= walk_until_; }
  /// The words had to be taken anew, in whole or in good part.
  void rebound(uint64_t now) {
    strikes_ = now - last_ <= kClose ? strikes_ + 1 : 0;
    if (now - last_ > kPatience) backoff_ = kFirstBackoff;
    last_ = now;
    if (strikes_ < kStrikes) return;
    strikes_ = 0;
    walk_until_ = now + backoff_;
    backoff_ = std::min(backoff_ * 2, kLastBackoff);
  }

 private:
  static constexpr uint64_t kClose = 8, kPatience = 1 << 12, kFirstBackoff = 64, kLastBackoff = 1 << 16;
  static constexpr int kStrikes = 4;
  uint64_t last_ = 0, walk_until_ = 0, backoff_ = kFirstBackoff;
  int strikes_ = 0;
};

}  // namespace

struct GuardPlan::Impl {
  explicit Impl(GuardDescription given) : description(std::move(given)), program(description) {
    registers.resize(program.steps.size());
    spare.resize(program.steps.size());
    if (!description.shapes.empty()) shapes.emplace(description.shapes, program);
    if (program.pinned_end) parts.push_back({Block(program, 0, program.pinned_end, dropped), {}});
    for (uint32_t root : program.roots) {
      const Step& step = program.steps[root];
      if (step.kind == source::Kind::Pinned) continue;
      if (step.end == root + 1)
        leaves.push_back(root);
      else
        parts.push_back({Block(program, root, step.end, dropped), {}});
    }
  }

  struct Part {
    Block block;
    Stability stability;
  };

  bool check_leaf(uint32_t root, const Roots& roots) {
    const Step& step = program.steps[root];
    PyObject* object = registers[root] = read_root(step, roots);
    return object ? !step.absent && passes(program, step, object) : step.absent;
  }

  /// Tensors and constants given as arguments; the one that failed last is tried first.
  bool check_leaves(const Roots& roots) {
    if (last_failed < leaves.size() && !check_leaf(leaves[last_failed], roots)) return false;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (i == last_failed || check_leaf(leaves[i], roots)) continue;
      last_failed = i;
      return false;
    }
    return true;
  }

  bool is_pinned(const Part& part) const { return program.steps[part.block.begin()].kind == source::Kind::Pinned; }
  /// Pinned objects are never walked: their words are all there is.
  bool may_bind(const Part& part) const { return is_pinned(part) || part.stability.may_bind(checks); }

  [[gnu::hot]] bool check_part(Part& part, const Roots& roots) {
    Block& block = part.block;
    PyObject* root = is_pinned(part) ? nullptr : read_root(program.steps[block.begin()], roots);
    if (block.is_bound_to(root)) {
      if (!block.holds(registers.data())) return false;
      if (block.unsettled()) [[unlikely]] {
        part.stability.rebound(checks);
        if (!may_bind(part)) block.unbind();
      }
      return true;
    }
    return check_anew(part, root);
  }

  [[gnu::hot]] bool check_anew(Part& part, PyObject* root) {
    Block& block = part.block;
    WithoutCollection no_finalizers;
    if (!is_pinned(part) && !walk(part, root)) return false;
    if (may_bind(part)) return bind(part, root);
    std::copy(spare.begin() + block.begin(), spare.begin() + block.end(), registers.begin() + block.begin());
    block.unbind();
    return true;
  }

  /// Into the spare registers: a miss leaves the bound form as it is.
  bool walk(Part& part, PyObject* root) {
    ++walks;
    return walk_root(program, part.block.begin(), root, spare.data());
  }

  bool bind(Part& part, PyObject* root) {
    if (!part.block.bind(root, registers.data())) return false;
    ++rebinds;
    part.stability.rebound(checks);
    return true;
  }

  [[gnu::hot]] bool check(const Roots& roots, PyObject** reads, Dropped& released) {
    bool held = evaluate(roots);
    if (!dropped.empty()) [[unlikely]] {
      released.insert(released.end(), std::move_iterator(dropped.begin()), std::move_iterator(dropped.end()));
      dropped.clear();
    }
    if (shapes) [[unlikely]]
      held = held && shapes->holds(registers.data()) && shapes->give(reads + program.reads.size());
    if (held)
      for (uint32_t index : program.reads) *reads++ = share(registers[index]).release();
    if (!made_by_reading.empty()) [[unlikely]]
      made_by_reading.clear();
    return held;
  }

  [[gnu::hot, gnu::always_inline]] bool evaluate(const Roots& roots) {
    ++checks;
    if (!check_leaves(roots) || !(aten::GlobalState::read() == description.state)) return false;
    for (Part& part : parts)
      if (!check_part(part, roots)) return false;
    for (const Relation& relation : program.relations)
      if (!holds(relation, registers.data())) return false;
    for (const Content& content : program.contents)
      if (!holds(content, registers.data())) return false;
    if (!distinct.holds(registers.data())) return false;
    return program.apart.empty() || aten::all_apart(registers.data(), program.apart, places, program.apart_steady);
  }

  std::string explain(const Roots& roots) const {
    WithoutCollection no_finalizers;
    const std::string why = first_failing(roots);
    made_by_reading.clear();
    return why;
  }

  std::string first_failing(const Roots& roots) const {
    aten::GlobalState now = aten::GlobalState::read();
    if (!(now == description.state)) return description.state.explain_difference(now);
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
      std::string why = explain_step(program, step, outcome, values[i]);
      if (!why.empty()) return why;
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
    return shapes ? shapes->explain(description.shapes, values.data()) : "";
  }

  GuardDescription description;
  Program program;
  Dropped dropped;
  Distinct distinct{program};
  std::optional<ShapeCheck> shapes;  // none: no number is looked at
  std::vector<uint32_t> leaves;      // roots with nothing below them
  std::vector<Part> parts;           // the others; pinned objects are one part
  std::vector<PyObject*> registers, spare;
  std::vector<uintptr_t> places;  // of program.apart, when they last held
  size_t last_failed = SIZE_MAX;
  uint64_t checks = 0;
  size_t walks = 0, rebinds = 0;
};

GuardPlan::GuardPlan(GuardDescription description) : impl_(std::make_unique<Impl>(std::move(description))) {}
GuardPlan::~GuardPlan() = default;

void GuardPlan::require(std::vector<guards::Fact> more) {
  GuardDescription description = std::move(impl_->description);
  for (guards::Fact& fact : more) description.facts.push_back(std::move(fact));
  impl_ = std::make_unique<Impl>(std::move(description));
}

void GuardPlan::require(std::vector<guards::ShapeGuards::Condition> more) {
  GuardDescription description = std::move(impl_->description);
  for (auto& condition : more) description.shapes.conditions.push_back(std::move(condition));
  impl_ = std::make_unique<Impl>(std::move(description));
}

[[gnu::hot]] bool GuardPlan::check(const Roots& roots, PyObject** reads, Dropped& dropped) {
  return impl_->check(roots, reads, dropped);
}
std::string GuardPlan::explain(const Roots& roots) const { return impl_->explain(roots); }
Dropped GuardPlan::unbind() {
  for (Impl::Part& part : impl_->parts) part.block.unbind();
  return std::exchange(impl_->dropped, {});
}
const GuardDescription& GuardPlan::description() const { return impl_->description; }

GuardPlan::Statistics GuardPlan::statistics() const {
  const GuardDescription& description = impl_->description;
  const size_t facts =
      description.facts.size() + description.shapes.properties.size() + description.shapes.conditions.size();
  Statistics result{facts, 0, 0, impl_->walks, impl_->rebinds};
  for (const Step& step : impl_->program.steps) result.tensors += step.spec != nullptr;
  for (const Impl::Part& part : impl_->parts) result.words += part.block.words();
  return result;
}

}  // namespace gramme::plan
