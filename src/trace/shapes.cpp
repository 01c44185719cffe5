// Deciding, fixing and simplifying expressions over the capture's symbols, and describing the resulting guards and
// violated constraints.
#include "trace/shapes.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "graph/place.h"

namespace gramme::trace {

using graph::place;
using shape::Expr;
using shape::SymInt;
using source::Source;
using SK = source::Kind;

namespace {

bool mentions(Expr e, int64_t symbol) {
  bool found = false;
  each_symbol(e, [&](Expr other) { found |= other->constant == symbol; });
  return found;
}

}  // namespace

Expr Shapes::add(const Source* source, shape::Range range, int64_t now, bool unbacked) {
  symbols_.push_back(source);
  now_.push_back(now);
  const Expr made = assumptions.add_symbol(range, unbacked ? std::nullopt : std::optional(now));
  if (source->kind == SK::SizeOf) decisions_.push_back({at_least(made, shape::constant(range.low)), nullptr});
  if (source->kind == SK::SizeOf && range.high != shape::Range::kNoHigh)
    decisions_.push_back({at_most(made, shape::constant(range.high)), nullptr});
  return made;
}

Expr Shapes::equal_now(int64_t value) const {
  const auto found = std::find(now_.begin(), now_.end(), value);
  return found == now_.end() ? nullptr : shape::symbol(found - now_.begin());
}

Expr Shapes::add_unbacked(shape::Range range, const graph::Position* made) {
  symbols_.push_back(nullptr);
  now_.push_back(std::nullopt);
  unbacked_at_.push_back(made);
  return assumptions.add_symbol(range, std::nullopt);
}

bool Shapes::is_of_data(Expr e) const {
  bool found = false;
  if (assumptions.is_unbacked(e)) each_symbol(e, [&](Expr symbol) { found |= !source_of(symbol); });
  return found;
}

const Source* Shapes::source_of(Expr symbol) const { return symbols_.at(static_cast<size_t>(symbol->constant)); }

const meta::Record* Shapes::describe(const meta::Record* record, const std::vector<Expr>& sizes, const Source* tensor,
                                     source::Pool& pool) {
  const meta::Record* described = meta::symbolic_record(record, sizes, assumptions);
  auto note = [&](SymInt number, SymInt now, const Source* source) {
    if (number.is_number()) return;
    const Expr e = number.expr();
    const bool is_new = e->kind == shape::Kind::Symbol && static_cast<size_t>(e->constant) == symbols_.size();
    if (is_new) {
      symbols_.push_back(source);
      now_.push_back(meta::known(now));
      const shape::Range range = assumptions.range(e);
      decisions_.push_back({at_least(e, shape::constant(range.low)), nullptr});
    } else if (e->kind != shape::Kind::Symbol || source_of(e) != source) {
      properties_.push_back({source, e});
    }
  };
  for (size_t d = 0; d < described->sizes.size(); ++d)
    note(described->sizes[d], record->sizes[d], pool.child(tensor, SK::SizeOf, static_cast<int64_t>(d)));
  // Stride symbols are numbered from the smallest stride on, as described->strides has them.
  std::vector<size_t> order;
  for (size_t d = 0; d < described->strides.size(); ++d) order.push_back(d);
  auto rank = [&](size_t d) {
    const SymInt stride = described->strides[d];
    const bool is_symbol = !stride.is_number() && stride.expr()->kind == shape::Kind::Symbol;
    return std::pair(meta::known(record->strides[d]), is_symbol ? stride.expr()->constant : -1);
  };
  std::ranges::stable_sort(order, {}, rank);
  for (size_t d : order)
    note(described->strides[d], record->strides[d], pool.child(tensor, SK::StrideOf, static_cast<int64_t>(d)));
  note(described->storage_offset, record->storage_offset, pool.child(tensor, SK::OffsetOf));
  GRAMME_ASSERT(symbols_.size() == assumptions.symbol_count());
  return described;
}

void Shapes::learn(Expr e, const graph::Position* asked) {
  if (assumptions.decide(e) == true) return;
  if (assumptions.is_unbacked(e)) GRAMME_BUG("a guard on data: " + shape::print(e));
  decisions_.push_back({e, asked});
  assumptions.learn(e);
  simplified_.clear();
}

void Shapes::assume(Expr e) {
  assumptions.learn(e);
  simplified_.clear();
}

std::string Shapes::print(Expr e) const { return shape::print(e, guards::names_of(symbols_)); }

void Shapes::refuse(Reason reason, Expr e, const char* what) const {
  if (!assumptions.is_unbacked(e)) cannot(Reason::DataDependentValue, std::string(what) + " that has no value");
  std::string text = print(e);
  size_t count = 0;
  for (size_t k = 0; k < symbols_.size(); ++k) {
    if (symbols_[k]) continue;
    if (const graph::Position* at = unbacked_at_[count]; mentions(e, static_cast<int64_t>(k)) && at)
      text += ", where u" + std::to_string(count) + " is made at " + place(at);
    ++count;
  }
  cannot(reason, text);
}

bool Shapes::decide(Expr e, const graph::Position* asked) {
  if (const std::optional<bool> known = assumptions.decide(e)) return *known;
  const std::optional<int64_t> now = assumptions.hint(e);
  if (!now) refuse(Reason::UnbackedCondition, e, "a condition on sizes");
  if (const Expr holds = *now ? e : shape::negation(e))
    learn(holds, asked);
  else
    fix_symbols(e, asked);
  return *now != 0;
}

int64_t Shapes::fix(Expr e, const graph::Position* asked) {
  const std::optional<int64_t> now = assumptions.hint(e);
  if (!now) refuse(Reason::UnbackedNumber, assumptions.simplified(e), "a size");
  if (e->type == shape::Type::Bool) return decide(e, asked);
  refuse_general();
  needed_.push_back(e);
  const Expr value =
      e->type == shape::Type::Int ? shape::constant(*now) : shape::float_constant(std::bit_cast<double>(*now));
  if (const Expr holds = shape::equal(e, value))
    learn(holds, asked);
  else
    fix_symbols(e, asked);
  return *now;
}

void Shapes::refuse_general() const {
  if (general) cannot(Reason::DataDependentValue, "a size or int that was captured anew for each value");
}

void Shapes::fix_symbols(Expr e, const graph::Position* asked) {
  refuse_general();
  each_symbol(e, [&](Expr symbol) { learn(equal(symbol, shape::constant(*assumptions.hint(symbol))), asked); });
}

SymInt Shapes::simplified(SymInt number) {
  return number.is_number() ? number : SymInt(assumptions.simplified(number.expr()));
}

const meta::Record* Shapes::simplified(const meta::Record* record) {
  if (!record->symbolic) return record;
  const meta::Record*& known = simplified_[record];
  if (!known) known = meta::mapped(record, [this](SymInt number) { return simplified(number); });
  return known;
}

std::string Shapes::violation(const Source* size) const {
  if (std::find(insisted_.begin(), insisted_.end(), size) == insisted_.end()) return {};
  const auto index = std::find(symbols_.begin(), symbols_.end(), size) - symbols_.begin();
  const Expr symbol = shape::symbol(index);
  const std::vector<std::string> names = guards().names();
  std::string text = "Constraints violated (" + size->print() +
                     ")! It was marked as dynamic, but the program makes it " +
                     std::to_string(now_.at(static_cast<size_t>(index)).value());
  for (const Decision& decision : decisions_)
    if (decision.holds->kind == shape::Kind::Equal && shape::may_share_symbols(decision.holds, symbol))
      text += "\n  - " + shape::print(decision.holds, names) + (decision.asked ? ", at " + place(decision.asked) : "");
  return text + "\nRemove the mark, or use torch._dynamo.maybe_mark_dynamic, under which such a size is a number.";
}

std::vector<Shapes::Fixed> Shapes::fixed() {
  std::vector<Fixed> result;
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const Expr symbol = shape::symbol(static_cast<int64_t>(i));
    const bool chosen = symbols_[i] && symbols_[i]->kind != SK::StrideOf && symbols_[i]->kind != SK::OffsetOf;
    if (!chosen || assumptions.is_unbacked(symbol) || !is_constant(assumptions.simplified(symbol))) continue;
    const bool needed =
        std::any_of(needed_.begin(), needed_.end(), [&](Expr e) { return shape::may_share_symbols(e, symbol); });
    result.push_back({symbols_[i], needed});
  }
  return result;
}

std::vector<const Source*> Shapes::ones() const {
  std::vector<const Source*> result;
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const bool is_size = symbols_[i] && symbols_[i]->kind == SK::SizeOf && now_[i] == 1;
    if (is_size && !assumptions.is_unbacked(shape::symbol(static_cast<int64_t>(i)))) result.push_back(symbols_[i]);
  }
  return result;
}

guards::ShapeGuards Shapes::guards() const {
  guards::ShapeGuards result;
  if (symbols_.size() > unbacked_at_.size()) result.symbols = symbols_;
  result.properties = properties_;
  for (const Decision& decision : decisions_) result.conditions.push_back({decision.holds, place(decision.asked)});
  return result;
}

uint64_t varying(const std::vector<SymInt>& numbers) {
  uint64_t result = 0;
  for (size_t i = 0; i < numbers.size() && i < 64; ++i)
    if (!numbers[i].is_number()) result |= uint64_t{1} << i;
  return result;
}

}  // namespace gramme::trace
