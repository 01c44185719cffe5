// Arithmetic on those bounds: what add_, mul_ and their foreach forms do to the number in a tensor, and when the
// program may take the number as a graph value instead of reading it.
#include "trace/contents.h"

#include <algorithm>
#include <set>
#include <utility>

#include "aten/classes.h"
#include "aten/spec.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "graph/graph.h"
#include "meta/numbers.h"
#include "source/constant.h"
#include "torch/names.h"
#include "trace/scope.h"
#include "value/views.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;
using meta::Interval;

namespace {

constexpr double kExactInFloat32 = 0x1p24;

bool is_whole(double number) { return number == std::trunc(number); }

PyObject* float32() {
  PyObject* const result = once([] { return imported("torch", "float32").release(); });
  return result;
}

/// True if the tensor may be tracked here: no dimensions, float32 or float64, on the CPU, no wrapper and no lazy
/// conjugation.
bool is_number(const Tensor* tensor) {
  PyObject* const float64 = once([] { return imported("torch", "float64").release(); });
  const meta::Record& record = *tensor->record;
  if (!record.sizes.empty() || record.opaque || record.inner || record.is_conj || record.is_neg ||
      record.device_type != 0)
    return false;
  PyObject* const dtype = meta::dtype_object(record);
  return dtype == float32() || dtype == float64;
}

/// The tensor that owns the memory; null if a view on the way covers something else than all of it.
Tensor* whole_root(Tensor* tensor) {
  for (; tensor->base; tensor = tensor->base)
    if (!is_number(tensor) || tensor->record->dtype != tensor->base->record->dtype) return nullptr;
  return is_number(tensor) ? tensor : nullptr;
}

/// A constant that is no bool.
bool is_constant_number(const Argument& argument, double& number) {
  if (argument.kind != Argument::Constant || !argument.object) return false;
  if (PyFloat_CheckExact(argument.object)) return number = PyFloat_AS_DOUBLE(argument.object), true;
  if (!PyLong_CheckExact(argument.object)) return false;
  number = PyLong_AsDouble(argument.object);
  if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
  return true;
}

bool is_sequence(const Argument& argument) {
  return argument.kind == Argument::List || argument.kind == Argument::Tuple;
}

enum class Change : uint8_t { None, Adds, Multiplies };

/// What the call does to its first argument, or to each tensor of that list. Looks at no other argument than alpha=1.
Change change_of(const meta::Call& call) {
  static PyObject *const add = intern("add_"), *const multiply = intern("mul_"), *const alpha = intern("alpha");
  PyObject* const add_by_operator = once([] { return imported("_operator", "iadd").release(); });
  PyObject* const multiply_by_operator = once([] { return imported("_operator", "imul").release(); });
  PyObject* const add_to_each = of_torch::object(of_torch::ForeachAdd);
  PyObject* const multiply_each = of_torch::object(of_torch::ForeachMul);
  if (call.arg_count != 2) return Change::None;
  const bool adds = call.target == add || call.target == add_by_operator || call.target == add_to_each;
  double scale = 0;
  for (uint32_t i = 0; i < call.keyword_count; ++i)
    if (!adds || call.keyword_names[i] != alpha || !is_constant_number(call.keyword_args[i], scale) || scale != 1)
      return Change::None;
  if (adds) return Change::Adds;
  const bool multiplies =
      call.target == multiply || call.target == multiply_by_operator || call.target == multiply_each;
  return multiplies ? Change::Multiplies : Change::None;
}

/// The interval that an input's number is guarded to lie in at the start, chosen around its present value, and whether
/// it is whole.
std::pair<Interval, bool> start_around(double now) {
  constexpr double kMostSteps = 0x1p23;
  if (is_whole(now) && 0 <= now && now <= kMostSteps) return {{0, kMostSteps}, true};
  if (0 <= now && now <= 1) return {{0, 1}, false};
  return {Interval::around_zero(source::kNarrow), false};
}

}  // namespace

Contents::Content* Contents::known(Tensor* tensor) {
  Tensor* root = whole_root(tensor);
  if (!root) return nullptr;
  auto found = contents_.find(root);
  return found == contents_.end() ? nullptr : &found->second;
}

Contents::Content* Contents::of(Tensor* tensor, const Written& written) {
  if (Content* content = known(tensor)) return content;
  Tensor* root = whole_root(tensor);
  double now = 0;
  if (!root || !root->existing() || !aten::number_in(root->object, now) || written(root)) return nullptr;
  auto [range, whole] = start_around(now);
  if (!range.holds(now)) return nullptr;
  starts_[root] = {range, whole};
  return &(contents_[root] = {.start = root, .whole = whole, .range = range, .now = now});
}

const Contents::Content* Contents::read_by(const graph::Node* node) const {
  auto found = reads_.find(node);
  return found == reads_.end() ? nullptr : &found->second;
}

void Contents::note_read(Content& content, Number* number) {
  content.read = number;
  reads_[number->node] = content;
  depend_on(content);
}

void Contents::depend_on(const Content& content) {
  auto depend = [this](const Tensor* input) {
    if (!std::exchange(starts_.at(input).used, true)) used_.push_back(input);
  };
  if (content.start) depend(content.start);
  std::ranges::for_each(content.computed_of, depend);
}

/// The bounds after adding `by` to the number, or multiplying it by that.
Contents::Content Contents::changed(const Content& before, bool adds, Interval by, double now, bool narrow) {
  Content after = before;
  after.read = nullptr;
  after.range = adds ? sum(before.range, by) : product(before.range, by);
  after.now = adds ? before.now + now : before.now * now;
  const bool exact = before.whole && by.is_point() && is_whole(by.low) && after.range.bound() <= kExactInFloat32;
  after.whole = exact && (adds || (before.range.is_point() && !before.start));
  if (after.whole) {
    after.added = adds ? after.added + by.low : after.range.low;
  } else if (narrow) {
    by = by.as_float32();
    after.range = (adds ? sum(before.range, by) : product(before.range, by)).as_float32();
  }
  after.now = std::clamp(after.now, after.range.low, after.range.high);
  return after;
}

namespace {

/// True for a whole-number input of at most 1 that the program has neither read nor written: perhaps the start of a
/// product of factors.
bool is_factor(const Contents::Content& content) {
  return content.start && content.whole && !content.read && content.added == 0 && content.now <= 1;
}

}  // namespace

std::vector<Contents::Write> Contents::expected(const meta::Call& call, const std::vector<Tensor*>& leaves,
                                                const std::vector<Number*>& numbers, const Written& written) {
  const Change change = change_of(call);
  if (change == Change::None) return {};
  const Argument &first = call.args[0], &second = call.args[1];
  const size_t count = is_sequence(first) ? first.count : 1;
  if (leaves.size() < count || std::set(leaves.begin(), leaves.end()).size() != leaves.size()) return {};
  if (is_sequence(second) && second.count != count) return {};
  std::vector<Write> writes;
  size_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& by = is_sequence(second) ? second.items[i] : second;
    Interval range;
    double now = 0;
    if (by.kind == Argument::Number) {
      Number* varies = numbers.at(is_sequence(second) ? number++ : 0);
      range = varies->range;
      now = PyFloat_CheckExact(varies->object) ? PyFloat_AS_DOUBLE(varies->object) : 0;
    } else if (by.kind == Argument::Tensor) {
      const Content* content = is_sequence(second) ? nullptr : known(leaves.at(count));
      if (content && content->range.is_point() && content->computed_of.empty())
        range = content->range, now = content->now;
    } else if (is_constant_number(by, now)) {
      range = {now, now};
    }
    Content* before = of(leaves[i], written);
    if (!before || !range.known()) continue;
    if (change == Change::Multiplies && is_factor(*before) && !starts_.at(before->start).used) {
      // A number that is multiplied is no step count: it is a product of factors that starts at 1.
      starts_.at(before->start) = {{0, 1}, false, false};
      before->whole = false;
      before->range = {0, 1};
    }
    const bool narrow = meta::dtype_object(*leaves[i]->record) == float32();
    const Content after = changed(*before, change == Change::Adds, range, now, narrow);
    if (after.range.known()) writes.push_back({whole_root(leaves[i]), after});
  }
  return writes;
}

void Contents::forget(Tensor* tensor) {
  if (contents_.empty()) return;
  tensor = storage_root(tensor);
  if (!tensor->existing()) {
    contents_.erase(tensor);
    return;
  }
  std::erase_if(contents_, [tensor](const auto& entry) {
    return entry.first == tensor || (entry.first->existing() && aten::overlap(entry.first->object, tensor->object));
  });
}

void Contents::write(const std::vector<Write>& writes) {
  for (const Write& write : writes) contents_[write.tensor] = write.content;
}

/// The bounds of what the call computes from known numbers; unbounded for other calls.
Contents::Content Contents::computed(const meta::Call& call, const std::vector<Tensor*>& leaves,
                                     const Written& written) {
  using Compute = Interval (*)(Interval, Interval);
  const auto* const rows = once([] {
    auto row = [](const char* name, Compute compute) {
      return std::pair(imported("_operator", name).release(), compute);
    };
    return new std::vector{row("add", &meta::sum), row("sub", &meta::difference), row("mul", &meta::product),
                           row("truediv", &meta::quotient)};
  });
  PyObject* const negate = once([] { return imported("_operator", "neg").release(); });
  Content made;
  if (call.keyword_count) return made;
  auto leaf = leaves.begin();
  auto range_of = [&](const Argument& argument) {
    double constant = 0;
    if (argument.kind == Argument::Number) return argument.range.as_float32();
    if (is_constant_number(argument, constant)) return Interval{constant, constant}.as_float32();
    const Content* content = argument.kind == Argument::Tensor ? of(*leaf++, written) : nullptr;
    if (!content) return Interval();
    if (content->start) made.computed_of.push_back(content->start);
    made.computed_of.insert(made.computed_of.end(), content->computed_of.begin(), content->computed_of.end());
    return content->range;
  };
  if (call.target == negate && call.arg_count == 1) made.range = negative(range_of(call.args[0]));
  for (auto [function, compute] : *rows) {
    if (call.target != function || call.arg_count != 2) continue;
    const Interval a = range_of(call.args[0]), b = range_of(call.args[1]);
    made.range = compute(a, b).as_float32();
  }
  made.now = made.range.low + (made.range.high - made.range.low) / 2;
  return made;
}

void Contents::note_made(const meta::Call& call, const std::vector<Tensor*>& leaves, Value* result,
                         const Written& written) {
  auto* tensor = as<Tensor>(result);
  if (!tensor || tensor->existing() || tensor->base || !is_number(tensor)) return;
  PyObject* const by_data = once([] { return imported("torch", "tensor").release(); });
  PyObject* const as_tensor = once([] { return imported("torch", "as_tensor").release(); });
  PyObject* const zeros = once([] { return imported("torch", "zeros").release(); });
  PyObject* const ones = once([] { return imported("torch", "ones").release(); });
  double number = call.target == ones ? 1 : 0;
  if (Content made = computed(call, leaves, written); made.range.known()) {
    contents_[tensor] = std::move(made);
    return;
  }
  static PyObject* const clone = intern("clone");
  if (call.target == clone && call.arg_count == 1 && !call.keyword_count) {
    const Content* copied = known(leaves.at(0));
    if (copied && !copied->start && copied->computed_of.empty())
      contents_[tensor] = *copied, contents_[tensor].read = nullptr;
    return;
  }
  const bool of_data = call.target == by_data || call.target == as_tensor;
  if (of_data && (!call.arg_count || !is_constant_number(call.args[0], number))) return;
  if (!of_data && call.target != zeros && call.target != ones) return;
  if (meta::dtype_object(*tensor->record) == float32()) number = static_cast<float>(number);
  if (std::isfinite(number))
    contents_[tensor] = {.whole = is_whole(number), .added = number, .range = {number, number}, .now = number};
}

bool is_in_optimizer(Inliner* inliner) {
  const Function* caller = inliner ? inliner->current_function() : nullptr;
  return caller && of_torch::is_in(caller->code->co_filename, of_torch::OptimizersFolder);
}

/// Methods, and functions on lists of tensors, that also take a number.
static const std::set<PyObject*>& takers_of_number() {
  return *once([] {
    auto* found = new std::set<PyObject*>;
    for (const char* name : {"add", "add_", "sub", "sub_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"}) {
      found->insert(intern(name));
      found->insert(imported("torch", ("_foreach_" + std::string(name)).c_str()).release());
    }
    return found;
  });
}

std::vector<Value*> Scope::with_numbers(const meta::Call& call, const Args& args) {
  static PyObject *const alpha = intern("alpha"), *const value = intern("value");
  if (!args.keywords || !takers_of_number().contains(call.target)) return {};
  if (!capture_.contract.as_is || !is_in_optimizer(capture_.inliner)) return {};
  std::vector<Value*> values(args.values, args.values + args.positional + args.keywords);
  for (size_t i = 0; i < args.keywords; ++i) {
    Value*& given = values[args.positional + i];
    auto* tensor = args.names[i] == alpha || args.names[i] == value ? capture_.see_as<Tensor>(given) : nullptr;
    if (!tensor || tensor->record->requires_grad) continue;
    if (Number* number = content(tensor)) given = number;
  }
  return values;
}

Number* Scope::content(Tensor* tensor) {
  static PyObject* const item = intern("item");
  if (graph_ != &root_ || modes_.in_level() || modes_.in_function_mode()) return nullptr;
  Contents::Content* content = contents_.of(tensor, [this](const Tensor* input) { return writes_.is_written(input); });
  if (!content && !(is_number(tensor) && aten::is_exact_tensor_type(tensor->record->type))) return nullptr;
  if (!content) {
    tensor->used = true;
    return emit_number(item, {tensor}, &PyFloat_Type, meta::floats_of(*tensor->record), take(PyFloat_FromDouble(1.0)));
  }
  if (content->read) return content->read;
  Number* number = emit_number(item, {tensor}, &PyFloat_Type, content->range, take(PyFloat_FromDouble(content->now)));
  number->node->effect = true;  // the guards on what it holds are about an input
  tensor->used = true;
  contents_.note_read(*content, number);
  return number;
}

}  // namespace gramme::trace
