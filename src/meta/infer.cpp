// The memo, and the ways to fill it: a rule or the pattern's outcome for varying sizes, a run on fakes, and the check
// of one against the other.
#include "meta/infer.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/process.h"
#include "meta/asked.h"
#include "meta/fill.h"
#include "meta/key.h"
#include "meta/pattern.h"
#include "meta/rules.h"
#include "meta/statistics.h"

namespace gramme::meta {
namespace {

struct Entry {
  std::vector<uint64_t> words;
  std::vector<Owned<>> held;  // keeps the addresses in the words unique
  Outcome outcome;
  std::unique_ptr<Entry> next;  // another key with this hash, or the same key under other guards
};

/// True if the outcome's guards hold now. A call may have several outcomes under different guards.
bool holds(const Outcome& outcome, shape::Assumptions* assumptions) {
  return std::all_of(outcome.guards.begin(), outcome.guards.end(),
                     [&](shape::Expr guard) { return assumptions->hint(guard) == 1; });
}

}  // namespace

class Outcomes {
 public:
  const Outcome* find(const Key& key, shape::Assumptions* assumptions) const {
    if (entries_.empty()) return nullptr;
    const auto found = entries_.find(key.hash());
    if (found == entries_.end()) return nullptr;
    for (const Entry* entry = &found->second; entry; entry = entry->next.get())
      if (entry->words == key.words() && holds(entry->outcome, assumptions)) return &entry->outcome;
    return nullptr;
  }

  /// A nested fill or another thread may have been faster: then that outcome stays.
  const Outcome& store(const Key& key, shape::Assumptions* assumptions, Outcome&& outcome) {
    if (const Outcome* meanwhile = find(key, assumptions)) return *meanwhile;
    Entry* entry = &entries_[key.hash()];
    while (!entry->words.empty()) {
      if (!entry->next) entry->next = std::make_unique<Entry>();
      entry = entry->next.get();
    }
    entry->words = key.words();
    for (PyObject* object : key.objects()) entry->held.push_back(share(object));
    entry->outcome = std::move(outcome);
    return entry->outcome;
  }

  size_t size() const { return entries_.size(); }

 private:
  std::unordered_map<uint64_t, Entry> entries_;  // addresses of nodes are stable
};

namespace {

struct Thread {
  Outcomes* of_capture = nullptr;  // of the innermost capture
};
thread_local constinit Thread of_thread;

struct Memo {
  Outcomes lasting;                 // GIL: held from the lookup to the return
  std::array<Outcome, 64> passing;  // GIL: ring of outcomes that are not kept; callers use the latest
  size_t next_passing = 0;          // GIL
  Key scratch;                      // GIL: for a lookup, during which no Python runs
  InferStatistics statistics{};     // GIL

  size_t size() const { return lasting.size(); }
};
OfProcess<Memo> memo;

struct Found {
  const Outcome* outcome;
  bool lasts;            // other calls with this key have the same outcome
  bool repeats = false;  // … those of the same capture
};

/// A kept outcome, if any.
Found known(const Key& key, shape::Assumptions* assumptions) {
  if (const Outcome* lasting = memo->lasting.find(key, assumptions)) return {lasting, true};
  return {of_thread.of_capture ? of_thread.of_capture->find(key, assumptions) : nullptr, false, true};
}

const Outcome& pass(Outcome&& outcome) {
  Outcome& slot = memo->passing[memo->next_passing++ % memo->passing.size()];
  return slot = std::move(outcome);
}

/// Returns an outcome that another such call may not share, and counts that.
const Outcome& pass_once(Outcome&& outcome) {
  ++asked->program;
  return pass(std::move(outcome));
}

/// True if the call takes a varying number.
bool takes_number(const Call& call) {
  bool takes = false;
  each_leaf(call, [&](const Argument& leaf) { takes |= leaf.expr != nullptr; });
  return takes;
}

/// True if a varying number meets integer tensors of fewer than 64 bits: kernels refuse numbers that do not fit.
bool may_not_fit(const Call& call, const Result& result) {
  auto is_narrow = [](const Record* record) {
    return record && c10::isIntegralType(static_cast<c10::ScalarType>(record->dtype), true) &&
           static_cast<c10::ScalarType>(record->dtype) != c10::ScalarType::Long;
  };
  bool narrow = is_narrow(result.record);
  each_leaf(call, [&](const Argument& leaf) { narrow |= leaf.kind == Argument::Tensor && is_narrow(leaf.record); });
  return narrow && takes_number(call);
}

/// Adds guards that every symbol in the expression keeps its present value.
void require_now(shape::Expr e, shape::Assumptions& assumptions, std::vector<shape::Expr>& guards) {
  for (const shape::Operand& operand : e->operands) require_now(operand.of, assumptions, guards);
  const std::optional<int64_t> now = e->kind == shape::Kind::Symbol ? assumptions.hint(e) : std::nullopt;
  if (now && e->type == shape::Type::Int) guards.push_back(shape::equal(e, shape::constant(*now)));
  if (now && e->type == shape::Type::Float)
    guards.push_back(shape::equal(e, shape::float_constant(std::bit_cast<double>(*now))));
}

/// Guards that all sizes and numbers of the call keep their present values.
std::vector<shape::Expr> only_now(const Call& call, shape::Assumptions& assumptions) {
  std::vector<shape::Expr> guards;
  auto note = [&](shape::SymInt number) {
    if (!number.is_number()) require_now(number.expr(), assumptions, guards);
  };
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.expr) require_now(leaf.expr, assumptions, guards);
    if (leaf.kind != Argument::Tensor) return;
    std::ranges::for_each(leaf.record->sizes, note);
    std::ranges::for_each(leaf.record->strides, note);
    note(leaf.record->storage_offset);
  });
  std::ranges::sort(guards);
  guards.erase(std::ranges::unique(guards).begin(), guards.end());
  return guards;
}

Found known_or_computed(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions);

/// Checks an outcome for varying sizes against the call on numbers: with symbolic sizes fakes run Python
/// decompositions, which can differ from the operators. On a disagreement the outcome is for these sizes only. False if
/// the call on numbers may have another outcome the next time.
bool check_on_numbers(Outcome& outcome, const Call& call, const std::vector<Level>& levels,
                      shape::Assumptions& assumptions) {
  if (outcome.inexpressible) return true;
  const CallNow now(call, assumptions);
  const Found found = known_or_computed(now.call(), levels, nullptr);
  const Outcome& expected = *found.outcome;
  if (outcome.error && expected.error) return found.lasts;
  if (outcome.error || expected.error || !agree(outcome, expected, assumptions)) {
    outcome = inexpressible("not as with numbers");
    outcome.guards = only_now(call, assumptions);
    return found.lasts;
  }
  outcome.random |= expected.random;
  outcome.may_raise =
      expected.may_raise || (outcome.may_raise && takes_number(call)) || may_not_fit(call, expected.result);
  outcome.opaque |= expected.opaque;
  outcome.runs_python |= expected.runs_python;
  outcome.warns |= expected.warns;
  outcome.operators = expected.operators;
  return found.lasts;
}

Filled computed(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions) {
  if (assumptions) {
    std::optional<Outcome> outcome = by_rule(call, levels, *assumptions);
    if (outcome) return {std::move(*outcome)};
  }
  const auto start = std::chrono::steady_clock::now();
  const int32_t ragged = last_ragged();
  Filled filled = fill(call, levels, assumptions);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ++memo->statistics.misses;
  memo->statistics.miss_seconds += taken.count();
  if (assumptions) {
    ++symbolic_statistics().fills;
    symbolic_statistics().fill_seconds += taken.count();
    set_last_ragged(ragged);
    filled.lasting &= check_on_numbers(filled.outcome, call, levels, *assumptions);
  }
  return filled;
}

/// Keeps the outcome, which was made of another or anew, as long as it holds.
const Outcome& kept(const Key& key, shape::Assumptions* assumptions, Outcome&& outcome, const Found& of) {
  if (key.memoizable() && of.lasts) return memo->lasting.store(key, assumptions, std::move(outcome));
  if (!key.memoizable() || !of.repeats || !of_thread.of_capture) return pass_once(std::move(outcome));
  ++asked->program;
  return of_thread.of_capture->store(key, assumptions, std::move(outcome));
}

Found miss(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions, const Key& key) {
  Filled filled = computed(call, levels, assumptions);
  Found made{nullptr, key.memoizable() && filled.lasting, filled.repeats};
  made.outcome = &kept(key, assumptions, std::move(filled.outcome), made);
  return made;
}

Found known_or_computed(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions) {
  Key key;
  key.build(call, levels);
  const Found found = known(key, assumptions);
  if (!found.outcome) return miss(call, levels, assumptions, key);
  ++memo->statistics.hits;
  symbolic_statistics().general_hits += assumptions != nullptr;
  return found;
}

/// The outcome from the call's pattern, which calls of any program at any sizes share.
const Outcome& general(const Call& call, const std::vector<Level>& levels, shape::Assumptions& assumptions,
                       const Key& key) {
  Pattern pattern(call, assumptions);
  if (pattern.refused()) return pass(inexpressible(pattern.refused()));
  const bool varies = takes_expressions(pattern.call());
  const Found found = known_or_computed(pattern.call(), levels, varies ? &pattern.assumptions() : nullptr);
  return kept(key, &assumptions, pattern.instantiated(*found.outcome), found);
}

}  // namespace

OutcomesOfCapture::OutcomesOfCapture()
    : own_(std::make_unique<Outcomes>()), outer_(std::exchange(of_thread.of_capture, own_.get())) {}

OutcomesOfCapture::~OutcomesOfCapture() { of_thread.of_capture = outer_; }

const Outcome& infer(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions) {
  memo->scratch.build(call, levels);
  if (const Found found = known(memo->scratch, assumptions); found.outcome) {
    ++memo->statistics.hits;
    return *found.outcome;
  }
  Key key = memo->scratch;  // copied, since computing the outcome may reenter infer()
  return takes_expressions(call) ? general(call, levels, *assumptions, key) : *miss(call, levels, nullptr, key).outcome;
}

InferStatistics infer_statistics() { return memo->statistics; }

}  // namespace gramme::meta
