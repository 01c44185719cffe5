// Rebuilding of argument trees with expressions replaced by atoms, and the way back for outcomes.
#include "meta/pattern.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "meta/fakes.h"
#include "meta/numbers.h"
#include "meta/overflow.h"

namespace gramme::meta {

using shape::Expr;
using shape::SymInt;

namespace {

/// The record with each number n replaced by `replace(n)`; null if one has no form.
template <class Replace>
const Record* replaced(const Record* record, Replace&& replace) {
  if (!record->symbolic) return record;
  bool fits = true;
  auto one = [&](SymInt number) {
    const std::optional<SymInt> made = number.is_number() ? number : replace(number);
    fits &= made.has_value();
    return made.value_or(0);
  };
  std::vector<SymInt> sizes, strides;
  for (SymInt size : record->sizes) sizes.push_back(one(size));
  for (SymInt stride : record->strides) strides.push_back(one(stride));
  const SymInt offset = one(record->storage_offset);
  std::vector<const Record*> parts;
  for (const Record* part : record->parts) {
    parts.push_back(replaced(part, replace));
    fits &= parts.back() != nullptr;
  }
  if (!fits) return nullptr;
  const Record* made = with_ragged(with_geometry(record, std::move(sizes), std::move(strides), offset), record->ragged);
  return parts.empty() ? made : with_parts(made, std::move(parts), record->context);
}

/// The arguments with each leaf replaced by `replace(leaf)`, allocated in the arena.
template <class Replace>
Argument rebuilt(const Argument& argument, Arena& arena, Replace&& replace);

template <class Replace>
const Argument* rebuilt(const Argument* arguments, uint32_t count, Arena& arena, Replace&& replace) {
  auto* made = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (count + 1)));
  for (uint32_t i = 0; i < count; ++i) new (made + i) Argument(rebuilt(arguments[i], arena, replace));
  return made;
}

template <class Replace>
Argument rebuilt(const Argument& argument, Arena& arena, Replace&& replace) {
  if (argument.count == 0) return replace(argument);
  Argument made = argument;
  made.items = rebuilt(argument.items, argument.count, arena, replace);
  return made;
}

template <class Replace>
Call rebuilt(const Call& call, Arena& arena, Replace&& replace) {
  Call made = call;
  made.args = rebuilt(call.args, call.arg_count, arena, replace);
  made.keyword_args = rebuilt(call.keyword_args, call.keyword_count, arena, replace);
  return made;
}

}  // namespace

bool takes_expressions(const Call& call) {
  bool found = false;
  each_leaf(call, [&](const Argument& leaf) { found |= leaf.expr || (leaf.record && leaf.record->symbolic); });
  return found;
}

Pattern::Pattern(const Call& call, shape::Assumptions& assumptions) : assumptions_(assumptions) {
  each_number(call, [&](const Argument& number, bool depends) {
    if (number.expr && !depends) only_types_.insert(&number);
  });
  call_ = rebuilt(call, arena_, [this](const Argument& argument) { return abstract(argument); });
}

Argument Pattern::abstract(const Argument& argument) {
  Argument made = argument;
  if (argument.record && argument.record->symbolic && argument.record->inner) refused_ = "inside a transform";
  if (argument.record) made.record = replaced(argument.record, [this](SymInt number) { return abstract(number); });
  if (argument.expr) made.expr = only_types_.contains(&argument) ? nullptr : atom(argument.expr);
  return made;
}

SymInt Pattern::abstract(SymInt number) { return SymInt(atom(number.expr())); }

Expr Pattern::atom(Expr e) {
  Expr& known = known_[e];
  if (known) return known;
  const std::optional<int64_t> hint = assumptions_.hint(e);
  if (!hint) refused_ = "a size that is not known while the capture runs";
  if (e->type == shape::Type::Bool) refused_ = "a truth that varies";
  const int64_t word = hint.value_or(1);
  if (e->type == shape::Type::Float) {
    known = atoms_.add_float(std::bit_cast<double>(word));
  } else {
    const Expr positive = at_least(e, shape::constant(1));
    const bool is_positive = positive && assumptions_.decide(positive) == true;
    known = atoms_.add_symbol({is_positive ? 1 : shape::Range::kNoLow, shape::Range::kNoHigh}, word);
  }
  expressions_.push_back(e);
  return known;
}

Expr Pattern::concrete(Expr general) const { return substitute(general, expressions_); }

/// Replaces atoms in a record by expressions; false if that has no form.
bool Pattern::instantiate(const Record*& record) const {
  record = replaced(record, [this](SymInt number) {
    const Expr e = concrete(number.expr());
    return e ? std::optional(SymInt(e)) : std::nullopt;
  });
  return record;
}

bool Pattern::instantiate(Result& result) const {
  bool fits = !result.record || instantiate(result.record);
  if (result.expr) {
    result.expr = concrete(result.expr);
    fits &= result.expr != nullptr;
  }
  for (Result& item : result.items) fits &= instantiate(item);
  return fits;
}

Outcome Pattern::instantiated(const Outcome& general) const {
  Outcome outcome = general;
  bool fits = instantiate(outcome.result);
  for (Mutation& mutation : outcome.mutations) fits &= instantiate(mutation.record);
  for (Mutation& became : outcome.ragged) fits &= instantiate(became.record);
  outcome.guards.clear();
  for (Expr guard : general.guards) {
    const Expr made = concrete(guard);
    fits &= made && !is_constant(made, 0);
    if (made && !is_constant(made)) outcome.guards.push_back(made);
  }
  outcome.may_raise |= is_huge(outcome.result, &assumptions_);
  return fits ? outcome : inexpressible("a size beyond 64 bits");
}

namespace {

const Record* record_now(const Record* record, shape::Assumptions& assumptions) {
  return replaced(record, [&](SymInt number) -> std::optional<SymInt> {
    const std::optional<int64_t> value = assumptions.hint(number.expr());
    return value ? std::optional(SymInt(*value)) : std::nullopt;
  });
}

bool agree(const Result& general, const Result& on_numbers, shape::Assumptions& assumptions) {
  if (general.kind == Result::Number && general.expr && on_numbers.kind == Result::Constant) return true;
  if (general.kind == Result::Sequence && on_numbers.kind == Result::Constant)  // a sequence of numbers
    return PyTuple_Check(on_numbers.object.get()) || PyList_Check(on_numbers.object.get());
  if (general.kind != on_numbers.kind || general.items.size() != on_numbers.items.size()) return false;
  if (general.kind == Result::Tensor) {
    auto aliases = [](const Result& r) {
      return std::tuple(r.same_as, r.unwrapped, r.view_of, r.differentiable_view, r.wraps_leaf, r.wraps_at);
    };
    return aliases(general) == aliases(on_numbers) && record_now(general.record, assumptions) == on_numbers.record;
  }
  for (size_t i = 0; i < general.items.size(); ++i)
    if (!agree(general.items[i], on_numbers.items[i], assumptions)) return false;
  return true;
}

}  // namespace

bool agree(const Outcome& general, const Outcome& on_numbers, shape::Assumptions& assumptions) {
  auto writes = [&](const Mutation& expected) {
    return std::any_of(general.mutations.begin(), general.mutations.end(), [&](const Mutation& mutation) {
      return mutation.leaf == expected.leaf && record_now(mutation.record, assumptions) == expected.record;
    });
  };
  return agree(general.result, on_numbers.result, assumptions) &&
         std::all_of(on_numbers.mutations.begin(), on_numbers.mutations.end(), writes);
}

CallNow::CallNow(const Call& call, shape::Assumptions& assumptions) {
  call_ = rebuilt(call, arena_, [&](const Argument& argument) {
    Argument made = argument;
    if (argument.record) made.record = record_now(argument.record, assumptions);
    if (argument.expr) {
      const int64_t word = assumptions.hint(argument.expr).value();
      const bool is_float = argument.expr->type == shape::Type::Float;
      numbers_.push_back(take(is_float ? PyFloat_FromDouble(std::bit_cast<double>(word)) : PyLong_FromLongLong(word)));
      made = Argument();
      made.object = numbers_.back().get();
    }
    return made;
  });
}

Outcome inexpressible(const char* why) {
  Outcome outcome;
  outcome.error = outcome.inexpressible = true;
  outcome.message = std::string("sizes that vary: ") + why;
  return outcome;
}

}  // namespace gramme::meta
