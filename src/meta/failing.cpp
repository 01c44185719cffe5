// Runs calls for real on small tensors of zeros, and classifies dtypes of arguments.
#include "meta/failing.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "aten/python.h"
#include "meta/build.h"
#include "meta/fakes.h"
#include "meta/pattern.h"
#include "meta/silence.h"

namespace gramme::meta {
namespace {

constexpr size_t kMostBytes = 1 << 24;

bool zeros_can_stand_for(const Record& record) {
  return aten::is_exact_tensor_type(record.type) && !record.symbolic && !record.inner && !record.is_conj &&
         !record.is_neg && record.device_type == static_cast<int8_t>(c10::kCPU) &&
         record.layout == static_cast<int8_t>(c10::kStrided);
}

size_t bytes_of(const Record& record) {
  return at::detail::computeStorageNbytes(known(record.sizes), known(record.strides),
                                          c10::elementSize(static_cast<at::ScalarType>(record.dtype)),
                                          known(record.storage_offset));
}

at::Tensor zeros(const Record& record) {
  auto dtype = static_cast<at::ScalarType>(record.dtype);
  c10::InferenceMode inference(record.is_inference);
  at::Tensor tensor = at::zeros({static_cast<int64_t>(bytes_of(record) / c10::elementSize(dtype))}, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(known(record.sizes), known(record.strides),
                                                      known(record.storage_offset));
  if (record.requires_grad && record.is_leaf) tensor.set_requires_grad(true);
  if (record.requires_grad && !record.is_leaf)
    torch::autograd::set_history(tensor, c10::make_intrusive<torch::autograd::NotImplemented>("metadata"));
  return tensor;
}

/// Scope that restores the state of torch's default generator.
class KeptStream {
 public:
  KeptStream() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  ~KeptStream() { generator_.set_state(state_); }
  KeptStream(const KeptStream&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

bool is_own_exception(PyObject* raised) {
  std::array known{PyExc_RuntimeError, PyExc_TypeError, PyExc_ValueError, PyExc_IndexError, PyExc_NotImplementedError};
  return std::find(known.begin(), known.end(), raised) != known.end();
}

class Try {
 public:
  /// Makes the tensors; false if one cannot be made.
  bool prepare(const Call& call) {
    size_t bytes = 0;
    bool fit = true;
    each_leaf(call, [&](const Argument& argument) {
      fit &= !argument.expr;
      if (argument.kind == Argument::Number || !fit || made_.contains(argument.node)) return;
      fit = zeros_can_stand_for(*argument.record) && (bytes += bytes_of(*argument.record)) <= kMostBytes;
      if (fit) made_[argument.node] = zeros(*argument.record);
    });
    for (auto& [node, tensor] : made_) versions_[node] = version(tensor);
    return fit;
  }

  Tried run(const Call& call) {
    Builder builder([&](const Argument& argument) {
      return argument.kind == Argument::Number ? share(argument.object) : aten::object_of(made_.at(argument.node));
    });
    Owned<> args = builder.args(call), kwargs = builder.kwargs(call);
    Silence silence;
    KeptStream stream;
    if (Owned<>::steal(run_silently(call, args.get(), kwargs.get()))) return Tried::Passes;
    if (is_own_exception(PyErr_Occurred()) && !written()) return Tried::Raises;
    PyErr_Clear();
    return Tried::Unknown;
  }

 private:
  static int64_t version(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }
  bool written() const {
    return std::any_of(made_.begin(), made_.end(),
                       [&](const auto& entry) { return version(entry.second) != versions_.at(entry.first); });
  }

  std::unordered_map<const graph::Node*, at::Tensor> made_;
  std::unordered_map<const graph::Node*, int64_t> versions_;
};

enum class Category : uint8_t { Bool, Integer, Float, Complex };

Category category_of(const Record& record) {
  if (is_complex(record)) return Category::Complex;
  if (is_floating_point(record)) return Category::Float;
  return record.dtype == static_cast<int8_t>(at::kBool) ? Category::Bool : Category::Integer;
}

/// The dtype categories of a call's tensors and numbers.
struct Categories {
  Category highest = Category::Bool;
  int count = 0;

  void add(Category category) {
    highest = std::max(highest, category);
    ++count;
  }
  void add(const Argument& argument) {
    if (argument.kind == Argument::Tensor)
      add(category_of(*physical(argument.record)));
    else if (!argument.object)
      for (uint32_t i = 0; i < argument.count; ++i) add(argument.items[i]);
    else if (PyBool_Check(argument.object))
      add(Category::Bool);
    else if (PyLong_Check(argument.object))
      add(Category::Integer);
    else if (PyFloat_Check(argument.object))
      add(Category::Float);
    else if (PyComplex_Check(argument.object))
      add(Category::Complex);
  }
};

/// Accumulates all arguments of a call.
template <class Sum>
Sum sum_of(const Call& call) {
  Sum sum;
  for (uint32_t i = 0; i < call.arg_count; ++i) sum.add(call.args[i]);
  for (uint32_t i = 0; i < call.keyword_count; ++i) sum.add(call.keyword_args[i]);
  return sum;
}

}  // namespace

Tried try_on_zeros(const Call& call) {
  try {
    Try attempt;
    return attempt.prepare(call) ? attempt.run(call) : Tried::Unknown;
  } catch (const std::exception&) {  // from c10, for a record that cannot be made
    PyErr_Clear();
    return Tried::Unknown;
  }
}

Tried try_on_zeros(const Call& call, shape::Assumptions& now) {
  bool known = true;
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.expr) known = known && now.hint(leaf.expr);
    if (leaf.kind != Argument::Tensor) return;
    mapped(leaf.record, [&](shape::SymInt number) {
      known = known && (number.is_number() || now.hint(number.expr()));
      return number;
    });
  });
  return known ? try_on_zeros(CallNow(call, now).call()) : Tried::Unknown;
}

namespace {

bool is_plain_float(int8_t dtype) {
  return dtype == static_cast<int8_t>(at::kFloat) || dtype == static_cast<int8_t>(at::kDouble);
}

/// The dtypes of a call's tensors and other arguments.
struct Types {
  int8_t first = -1;
  int tensors = 0;
  bool odd = false;  // not only plain floats of one type, or an empty tensor

  void add(const Argument& argument) {
    if (argument.kind == Argument::Tensor) return add(*physical(argument.record));
    for (uint32_t i = 0; i < argument.count; ++i) add(argument.items[i]);
    if (argument.kind != Argument::Constant || !argument.object) return;
    odd |= PyComplex_Check(argument.object) ||
           (THPDtype_Check(argument.object) &&
            !is_plain_float(static_cast<int8_t>(reinterpret_cast<THPDtype*>(argument.object)->scalar_type)));
  }
  void add(const Record& record) {
    if (tensors++ == 0) first = record.dtype;
    odd |= record.dtype != first || !is_plain_float(record.dtype) ||
           std::ranges::any_of(record.sizes, [](shape::SymInt size) { return size.number() == 0; });
  }
};

/// True if the call takes a mask, which must be of bools.
bool takes_mask(const Call& call) {
  Owned<> name = share(call.target);
  if (!PyUnicode_Check(name.get())) name = Owned<>::steal(PyObject_GetAttrString(call.target, "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  return text && std::string_view(text).starts_with("masked_");
}

bool makes_views(const Result& result) {
  if (result.kind == Result::Sequence) return std::ranges::all_of(result.items, makes_views);
  return result.kind != Result::Tensor || result.view_of >= 0 || result.same_as >= 0;
}

}  // namespace

bool may_refuse_types(const Call& call, const Outcome& outcome) {
  const Types types = sum_of<Types>(call);
  if (types.tensors == 0 || (outcome.mutations.empty() && makes_views(outcome.result))) return false;
  return types.odd || takes_mask(call);
}

bool may_not_fit(const Call& call, const Outcome& outcome) {
  if (outcome.mutations.empty()) return false;
  const Categories given = sum_of<Categories>(call);
  return std::ranges::any_of(outcome.mutations, [&](const Mutation& mutation) {
    const Category written = category_of(*physical(mutation.record));
    return written < given.highest || (written < Category::Float && given.count == 1);
  });
}

}  // namespace gramme::meta
