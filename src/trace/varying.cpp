// Decides which sizes, ints and floats vary, from settings, marks and earlier captures.
#include "trace/varying.h"

#include <algorithm>
#include <string_view>

#include "base/imported.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "meta/predicate.h"
#include "source/constant.h"
#include "torch/names.h"
#include "trace/left_open.h"

namespace gramme::trace {

using namespace value;
using shape::Expr;
using SK = source::Kind;

bool may_vary(const Source* source) {
  SK root = source->root()->kind;
  return root == SK::Local || root == SK::Stack || root == SK::Function;
}

bool is_result_of_cache(const Source* source) {
  if (source->kind == SK::CacheResult) source = source->base;
  return source->kind == SK::Value && source->base->kind == SK::CacheTable;
}

bool is_of_hooks(const Source* source) {
  if (source->kind != SK::Attr && source->kind != SK::Value) return false;
  if (!PyUnicode_CheckExact(source->key.get())) return false;
  const std::string name = utf8_of(source->key.get());
  return name.starts_with("_") && name.ends_with("_hooks");
}

bool is_left_open(const Policy& policy, const Source* source, PyObject* number) {
  if (!PyFloat_CheckExact(number) || !policy.contract.breaks || policy.fixed.contains(source->path)) return false;
  const auto found = policy.times_fixed.find(source->path);
  if (found == policy.times_fixed.end()) return false;
  return policy.general || (source->kind == SK::Stack && found->second >= kTimesFixed);
}

namespace {

/// True if the number had another value at an earlier capture.
bool has_changed(const Policy& policy, PyObject* object, const Source* source) {
  if (policy.dynamic.contains(source->path)) return true;
  auto known = policy.numbers.find(source->path);
  return known != policy.numbers.end() && Py_TYPE(known->second.get()) == Py_TYPE(object) &&
         !source::same_constant(known->second.get(), object);
}

/// True if the list has the source, or the given dimension of the tensor there.
bool is_named(const std::vector<NamedSource>& list, const Source* source, std::optional<size_t> dim = std::nullopt) {
  if (list.empty()) return false;
  Owned<> name = take(PyUnicode_FromString(source->print().c_str()));
  return std::ranges::any_of(list, [&](const NamedSource& named) {
    if (dim && named.dim && *named.dim != *dim) return false;
    return take(PyObject_CallMethod(named.pattern.get(), "match", "O", name.get())).get() != Py_None;
  });
}

/// True for floats, and for ints small enough that arithmetic on them stays within 64 bits.
bool can_be_input(PyObject* object) { return PyFloat_CheckExact(object) || source::is_narrow(object); }

/// Bounds for which quotients of such numbers and of their squares fit 32-bit floats.
constexpr double kLeastFactor = 0x1p-60, kMostWeight = 0x1p30;

/// True for a float between 0 and 1 such as a learning rate or momentum: arithmetic on it in optimizers is bounded and
/// cannot raise.
bool is_factor(PyObject* object) {
  return PyFloat_CheckExact(object) && 0 < PyFloat_AS_DOUBLE(object) && PyFloat_AS_DOUBLE(object) < 1;
}

/// True if an optimizer keeps the number in its param_groups or in a parameter's state.
bool is_of_optimizer(const Source* source) {
  static PyObject *const groups = intern("param_groups"), *const state = intern("state");
  for (; source; source = source->base)
    if (source->key && (source->key.get() == groups || source->key.get() == state)) return true;
  return false;
}

}  // namespace

bool VaryingNumbers::was_needed(Expr e) const {
  if (e->kind == shape::Kind::Symbol) {
    const Source* source = shapes_.source_of(e);
    return source && policy_.times_fixed.contains(source->path);
  }
  return std::any_of(e->operands.begin(), e->operands.end(),
                     [this](const shape::Operand& operand) { return was_needed(operand.of); });
}

void VaryingNumbers::specialize(const Number* number) {
  facts_.add({number->source, guards::Kind::Constant, share(number->object)});
  specialized_.push_back(number->source);
  if (PyFloat_CheckExact(number->object) && PyFloat_AS_DOUBLE(number->object) == 0) zeros_.push_back(number->source);
}

bool VaryingNumbers::is_known_constant(const Source* source) const {
  return policy_.specialized.contains(source->path) || policy_.fixed.contains(source->path) ||
         std::find(specialized_.begin(), specialized_.end(), source) != specialized_.end();
}

/// True if the number is captured as varying. A float on the stack always is: a concrete instruction has just computed
/// it, so it will differ next time.
bool VaryingNumbers::varies(PyObject* object, const Source* source) const {
  if (!can_be_input(object)) return false;
  if (source->kind == SK::Stack && PyFloat_CheckExact(object)) return true;
  if (is_named(policy_.named_static, source)) return false;
  if (!may_vary(source) || (PyLong_CheckExact(object) && !policy_.whole_numbers_vary)) return false;
  if (has_changed(policy_, object, source)) return true;
  if (!PyLong_CheckExact(object)) return false;
  if (policy_.all_dynamic && (policy_.module_numbers_vary || !is_below_module(source))) return true;
  return is_named(policy_.named_dynamic, source) || is_named(policy_.named_unbacked, source) ||
         policy_.dynamic_values.contains(PyLong_AsLongLong(object));
}

/// True for numbers of modules (strides, paddings), which rarely differ between calls.
bool VaryingNumbers::is_below_module(const Source* source) const {
  for (; source; source = source->base)
    if (modules_.contains(source)) return true;
  return false;
}

Value* VaryingNumbers::at(PyObject* object, const Source* source, Inliner* inliner) {
  const bool is_zero = PyFloat_CheckExact(object) && PyFloat_AS_DOUBLE(object) == 0;
  const bool is_bound = (is_known_constant(source) && !is_left_open(policy_, source, object)) ||
                        (is_zero && policy_.zeros.contains(source->path));
  if (!varies(object, source) || is_bound) {
    facts_.add({source, guards::Kind::Constant, share(object)});
    return values_.make<Constant>(source, object);
  }
  bool narrow = source::is_narrow(object);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  facts_.add({source, narrow ? guards::Kind::Narrow : guards::Kind::Type, share(type)});
  varying_.push_back(source);
  constexpr auto kMost = static_cast<int64_t>(source::kNarrow);
  if (policy_.contract.symbols && narrow && is_named(policy_.named_unbacked, source))
    return expression(shapes_.add(source, {-kMost, kMost}, PyLong_AsLongLong(object), true));
  auto* result = values_.make<Number>(source, object);
  result->type = Py_TYPE(object);
  if (narrow) result->range = meta::Interval::around_zero(source::kNarrow);
  const bool of_optimizer = policy_.contract.counts() && (policy_.in_step || is_of_optimizer(source));
  of_optimizer_ |= of_optimizer;
  const bool of_torch = is_in_optimizer(inliner);  // whose learning rates may become 0
  if (policy_.contract.counts() && is_factor(object) && (of_optimizer || of_torch)) {
    result->range = {!of_torch && PyFloat_AS_DOUBLE(object) > kLeastFactor ? kLeastFactor : 0, 1};
    facts_.add(guards::between(source, result->range.low, 1));
  }
  if (of_optimizer && narrow && PyFloat_CheckExact(object) && PyFloat_AS_DOUBLE(object) >= 1) {  // a sum of weights
    const double most = PyFloat_AS_DOUBLE(object) < kMostWeight ? kMostWeight : source::kNarrow;
    result->range = {1 / most, most};
    facts_.add(guards::between(source, result->range.low, result->range.high));
  }
  if (policy_.contract.symbols && PyLong_CheckExact(object)) {
    result->expr = shapes_.add(source, {-kMost, kMost}, PyLong_AsLongLong(object));
    // A step count stays positive, so quotients by it and powers of it are bounded.
    if (of_optimizer && PyLong_AsLongLong(object) > 0 &&
        shapes_.decide(at_least(result->expr, shape::constant(1)), inliner ? inliner->position() : nullptr))
      result->range.low = 1;
  }
  return result;
}

bool is_of_module(const meta::Record* record, const Source* source) {
  static PyObject* const buffers = of_torch::attribute(of_torch::Buffers);
  static PyObject* const parameters = of_torch::attribute(of_torch::Parameters);
  if (std::string_view(record->type->tp_name) == "Parameter") return true;
  for (; source; source = source->base)
    if (source->key && (source->key.get() == buffers || source->key.get() == parameters)) return true;
  return false;
}

namespace {

/// The attributes that torch._dynamo.mark_dynamic and the like have set on a tensor, or PyTorch itself on one whose
/// sizes vary by nature: the content of a jagged tensor, a result of a graph that takes any size.
class Marks {
 public:
  explicit Marks(PyObject* tensor) {
    static PyObject* const dynamic = of_torch::attribute(of_torch::MarkedDynamicIndices);
    static PyObject* const weak = of_torch::attribute(of_torch::MarkedWeakDynamicIndices);
    static PyObject* const propagated = of_torch::attribute(of_torch::PropagatedDynamicIndices);
    static PyObject* const stays = of_torch::attribute(of_torch::MarkedStaticIndices);
    static PyObject* const ranges = of_torch::attribute(of_torch::MarkedDynamicRange);
    static PyObject* const unbacked = of_torch::attribute(of_torch::MarkedUnbackedIndices);
    static PyObject* const strict = of_torch::attribute(of_torch::MarkedStrictUnbackedIndices);
    static PyObject* const special = of_torch::attribute(of_torch::SpecializeOn);
    static PyObject* const bounds = of_torch::attribute(of_torch::MarkedUnbackedBounds);
    static PyObject* const ids = of_torch::attribute(of_torch::MarkedShapeIds);
    cpython::instance_attribute(tensor, dynamic, &dynamic_);
    cpython::instance_attribute(tensor, weak, &weak_);
    cpython::instance_attribute(tensor, propagated, &propagated_);
    cpython::instance_attribute(tensor, stays, &static_);
    cpython::instance_attribute(tensor, unbacked, &unbacked_);
    cpython::instance_attribute(tensor, strict, &strict_);
    cpython::instance_attribute(tensor, ranges, &ranges_);
    cpython::instance_attribute(tensor, special, &special_);
    cpython::instance_attribute(tensor, bounds, &bounds_);
    cpython::instance_attribute(tensor, ids, &ids_);
  }
  bool any() const { return dynamic_ || weak_ || propagated_ || unbacked_ || strict_; }
  bool is_unbacked(size_t d) const { return holds(unbacked_, d) || holds(strict_, d); }
  bool must_vary(size_t d) const { return holds(dynamic_, d); }
  bool is_dynamic(size_t d) const { return must_vary(d) || holds(weak_, d) || holds(propagated_, d); }
  bool is_static(size_t d) const { return !must_vary(d) && holds(static_, d); }

  /// The range that the program gave for the size; at least that of all sizes.
  shape::Range range(size_t d, int64_t now) const {
    shape::Range result{1, shape::Range::kNoHigh};
    Owned<> rows = ranges_ ? take(PySequence_Fast(ranges_, "a set of ranges")) : Owned<>();
    for (Py_ssize_t i = 0; rows && i < PySequence_Fast_GET_SIZE(rows.get()); ++i) {
      PyObject* row = PySequence_Fast_GET_ITEM(rows.get(), i);
      Owned<> dim = take(PyObject_GetAttrString(row, "dim")), least = take(PyObject_GetAttrString(row, "min")),
              most = take(PyObject_GetAttrString(row, "max"));
      if (PyLong_AsSize_t(dim.get()) != d) continue;
      if (PyLong_Check(least.get())) result.low = std::max<int64_t>(result.low, PyLong_AsLongLong(least.get()));
      if (PyLong_Check(most.get())) result.high = PyLong_AsLongLong(most.get());
    }
    const bool fits = result.low <= now && now <= result.high;
    return fits ? result : shape::Range{1, shape::Range::kNoHigh};
  }

  /// Predicates given to mark_dynamic(specialize_on=): a size for which one is true gets its own segment.
  Owned<> specializations(size_t d) const {
    PyObject* list = row(special_, d);
    return list ? take(PySequence_Fast(list, "a list of functions")) : take(PyTuple_New(0));
  }

  /// The range given to torch._dynamo.decorators.mark_unbacked for the size.
  shape::Range unbacked_range(size_t d) const {
    shape::Range result{0, shape::Range::kNoHigh};
    PyObject* pair = row(bounds_, d);
    if (!pair || !PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) return result;
    if (PyObject* least = PyTuple_GET_ITEM(pair, 0); PyLong_Check(least))
      result.low = std::max<int64_t>(0, PyLong_AsLongLong(least));
    if (PyObject* most = PyTuple_GET_ITEM(pair, 1); PyLong_Check(most)) result.high = PyLong_AsLongLong(most);
    return result;
  }
  /// The id of the size, null if it has none; sizes with one id are equal.
  PyObject* shape_id(size_t d) const { return row(ids_, d); }

 private:
  /// The dict's entry for dimension `d`, borrowed; null if there is none.
  static PyObject* row(PyObject* dict, size_t d) {
    if (!dict || !PyDict_CheckExact(dict)) return nullptr;
    return PyDict_GetItemWithError(dict, take(PyLong_FromSize_t(d)).get());
  }
  static bool holds(PyObject* set, size_t d) {
    if (!set || !PyAnySet_Check(set)) return false;
    return PySet_Contains(set, take(PyLong_FromSize_t(d)).get()) == 1;
  }

  PyObject *dynamic_ = nullptr, *weak_ = nullptr, *propagated_ = nullptr, *static_ = nullptr, *ranges_ = nullptr,
           *special_ = nullptr, *unbacked_ = nullptr, *strict_ = nullptr, *bounds_ = nullptr, *ids_ = nullptr;
};

[[noreturn]] void refuse_mark(const Source* size, int64_t now, const std::string& said) {
  const std::string text = "Constraints violated (" + size->print() + ")! It was marked as " + said + ", but it is " +
                           std::to_string(now) + ".\nPass another size, or mark it otherwise.";
  PyErr_SetString(of_torch::object(of_torch::ConstraintViolationError), text.c_str());
  throw PythonError();
}

}  // namespace

/// Asks the predicates of mark_dynamic(specialize_on=). True if the size becomes a constant.
bool VaryingNumbers::decide_special(const Owned<>& predicates, shape::Expr size, const graph::Position* asked) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(predicates.get()); ++i)
    for (Expr condition : meta::conditions_of(PySequence_Fast_GET_ITEM(predicates.get(), i), size, shapes_.assumptions))
      shapes_.decide(condition, asked);
  return is_constant(shapes_.assumptions.simplified(size));
}

shape::Expr VaryingNumbers::unbacked_size(const Source* size, shape::Range range, int64_t now, PyObject* id) {
  if (now < range.low || now > range.high)
    refuse_mark(size, now,
                "unbacked, at least " + std::to_string(range.low) +
                    (range.high == shape::Range::kNoHigh ? "" : " and at most " + std::to_string(range.high)));
  if (!id || !PyUnicode_Check(id)) return shapes_.add(size, range, now, true);
  const auto [known, is_new] = sizes_by_id_.try_emplace(utf8_of(id), nullptr);
  if (is_new) return known->second = shapes_.add(size, range, now, true);
  const int64_t other = shapes_.now(known->second);
  if (now != other) refuse_mark(size, now, "equal to " + shapes_.print(known->second) + ", " + std::to_string(other));
  return known->second;
}

/// True if only the strides changed: a slice of a growing tensor, or a row of a table that gets wider.
bool VaryingNumbers::strides_vary(const meta::Record* record, const Source* source) {
  const auto before = policy_.observed.find(source->path);
  if (before == policy_.observed.end() || before->second->strides.size() != record->strides.size()) return false;
  bool vary = false;
  for (size_t d = 0; d < record->strides.size(); ++d) {
    if (is_known_constant(pool_.child(source, SK::SizeOf, static_cast<int64_t>(d)))) return false;
    const Source* stride = pool_.child(source, SK::StrideOf, static_cast<int64_t>(d));
    const shape::SymInt first = before->second->strides[d];
    const bool changed = !first.is_any() && first != record->strides[d];
    if (!changed && !policy_.dynamic.contains(stride->path)) continue;
    varying_.push_back(stride);
    vary = true;
  }
  return vary;
}

std::vector<shape::Expr> VaryingNumbers::sizes(PyObject* object, const meta::Record* record, const Source* source,
                                               const graph::Position* asked) {
  if (!policy_.contract.symbols || record->sizes.empty() || record->inner) return {};
  if (record->strides.size() != record->sizes.size()) return {};
  const Marks marks(object);
  const bool named = is_named(policy_.named_dynamic, source), unbacked = is_named(policy_.named_unbacked, source);
  const bool stays = is_named(policy_.named_static, source);
  const bool by_value = !policy_.dynamic_values.empty() && !is_of_module(record, source);
  if (!marks.any() && !named && !unbacked && !by_value && !may_vary(source)) return {};
  const auto before = policy_.observed.find(source->path);
  const bool seen = policy_.automatic && may_vary(source) && before != policy_.observed.end();
  const bool other_rank = seen && before->second->sizes.size() != record->sizes.size();
  const bool all = other_rank || (policy_.all_dynamic && !is_of_module(record, source));
  bool any = false;
  std::vector<shape::Expr> sizes(record->sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (stays && is_named(policy_.named_static, source, d) && !marks.is_dynamic(d) && !marks.is_unbacked(d)) continue;
    const int64_t now = meta::known(record->sizes[d]);
    const Source* size = pool_.child(source, SK::SizeOf, static_cast<int64_t>(d));
    const bool was_other =
        seen && !other_rank && (policy_.dynamic.contains(size->path) || before->second->sizes[d] != now);
    const bool changed = all || was_other || (named && is_named(policy_.named_dynamic, source, d)) ||
                         (by_value && policy_.dynamic_values.contains(now));
    if (changed) varying_.push_back(size);
    if ((marks.is_unbacked(d) || (unbacked && is_named(policy_.named_unbacked, source, d))) &&
        !is_known_constant(size)) {
      sizes[d] = unbacked_size(size, marks.unbacked_range(d), now, marks.shape_id(d));
      any = true;
      continue;
    }
    if (marks.is_static(d) || is_known_constant(size)) continue;
    if (now < 2 && !(now == 1 && was_other && policy_.contract.as_is && !marks.is_dynamic(d))) continue;
    if (marks.is_dynamic(d)) {
      sizes[d] = shapes_.add(size, marks.range(d, now), now);
      const bool special = decide_special(marks.specializations(d), sizes[d], asked);
      if (marks.must_vary(d) && !special) shapes_.insist(size);
    } else if (changed) {
      shape::Expr known = policy_.all_dynamic && now > 1 ? shapes_.equal_now(now) : nullptr;
      sizes[d] = known ? known : shapes_.add(size, {1, shape::Range::kNoHigh}, now);
    }
    any |= sizes[d] != nullptr;
  }
  any = any || (seen && !other_rank && strides_vary(record, source));
  return any ? sizes : std::vector<shape::Expr>();
}

}  // namespace gramme::trace
