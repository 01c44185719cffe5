// Parses the table, and decides from dtypes and intervals whether a number can matter.
#include "meta/numbers.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/Dtype.h>

#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/imported.h"
#include "base/once.h"
#include "base/ref.h"
#include "meta/origin.h"

namespace gramme::meta {

/// The table's entry for one target.
struct NumberTaker {
  std::vector<Takes> positions;  // by positional argument
  std::unordered_map<PyObject*, Takes> keywords;
};

namespace {

using Takers = std::unordered_map<PyObject*, NumberTaker>;  // by callable or interned method name; kept alive

struct Row {
  const char* name;
  Takes how;
  uint32_t positions, most;
  const char* keywords;
};

void add(NumberTaker& taker, const Row& row) {
  taker.positions.resize(row.most, Takes::Not);
  for (uint32_t i = 0; i < row.most; ++i)
    if (row.positions >> i & 1) taker.positions[i] = row.how;
  std::string rest = row.keywords;
  for (size_t space; !rest.empty(); rest = space == std::string::npos ? "" : rest.substr(space + 1)) {
    space = rest.find(' ');
    taker.keywords[intern(rest.substr(0, space).c_str())] = row.how;
  }
}

void add_function(Takers& takers, const char* module, const std::string& name, const Row& row) {
  Owned<> owner = take(import_module(module));
  if (PyObject* found = PyObject_GetAttrString(owner.get(), name.c_str()))
    add(takers[found], row);
  else
    PyErr_Clear();
}

const Takers& takers() {
  const Takers* known = once([] {
    static constexpr Row kRows[] = {
#define TAKES_NUMBER(name, how, positions, most, keywords) {#name, Takes::how, positions, most, keywords},
#include "torch_targets.def"
#undef TAKES_NUMBER
    };
    auto* made = new Takers;
    for (const Row& row : kRows) {
      std::string name = row.name;
      add_function(*made, "operator", name, row);
      add_function(*made, "operator", "i" + name, row);
      add_function(*made, "torch", name, row);
      add_function(*made, "torch", name + "_", row);
      add_function(*made, "torch.nn.functional", name, row);
      for (const std::string& method : {name, name + "_", "__" + name + "__", "__r" + name + "__", "__i" + name + "__"})
        add((*made)[intern(method.c_str())], row);
    }
    return made;
  });
  return *known;
}

PyObject* input_name() {
  static PyObject* const name = intern("input");
  return name;
}

/// The entry for ufuncs carried out by NumPy.
const NumberTaker* numpys() {
  static const NumberTaker taker{std::vector<Takes>(64, Takes::AsNumpy), {}};  // no Python: an allocation
  return &taker;
}

const NumberTaker* taker_of(const Call& call) {
  if (calls_numpy(call.target) && call.arg_count <= numpys()->positions.size()) return numpys();
  auto found = takers().find(call.target);
  if (found == takers().end() || call.arg_count > found->second.positions.size()) return nullptr;
  for (uint32_t i = 0; i < call.keyword_count; ++i) {
    PyObject* name = call.keyword_names[i];
    if (name != input_name() && !found->second.keywords.contains(name)) return nullptr;
  }
  return &found->second;
}

/// What a call's tensors say about which numbers fit.
struct Tensors {
  bool any = false, all_floating = true, all_discrete = true;
  bool real = false;          // only float tensors and masks
  double largest = HUGE_VAL;  // largest number that every dtype can hold
};

double largest_of(c10::ScalarType dtype) {
  constexpr double kDouble = std::numeric_limits<double>::max(), kFloat = std::numeric_limits<float>::max();
  static constexpr std::pair<c10::ScalarType, double> kLargest[] = {
      {c10::ScalarType::Double, kDouble},   {c10::ScalarType::ComplexDouble, kDouble},
      {c10::ScalarType::Float, kFloat},     {c10::ScalarType::ComplexFloat, kFloat},
      {c10::ScalarType::BFloat16, 0x1p127}, {c10::ScalarType::Half, 65504},
      {c10::ScalarType::Long, 0x1p62},      {c10::ScalarType::Int, 0x1p30}};
  for (const auto& [known, largest] : kLargest)
    if (known == dtype) return largest;
  return -1;
}

/// The dtype= argument of the call, or the default dtype; Undefined if it is given in an unknown form.
c10::ScalarType wanted_dtype(const Call& call) {
  static PyObject* const name = intern("dtype");
  for (uint32_t i = 0; i < call.keyword_count; ++i) {
    if (call.keyword_names[i] != name) continue;
    const Argument& given = call.keyword_args[i];
    if (given.kind != Argument::Constant) return c10::ScalarType::Undefined;
    if (given.object != Py_None)
      return THPDtype_Check(given.object) ? reinterpret_cast<THPDtype*>(given.object)->scalar_type
                                          : c10::ScalarType::Undefined;
  }
  return c10::get_default_dtype_as_scalartype();
}

Tensors tensors_of(const Call& call) {
  Tensors result;
  bool floating = false, others = false;
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.kind != Argument::Tensor || !leaf.record) return;
    auto dtype = static_cast<c10::ScalarType>(leaf.record->dtype);
    result.any = true;
    floating |= c10::isFloatingType(dtype);
    others |= !c10::isFloatingType(dtype) && dtype != c10::ScalarType::Bool;
    result.all_floating &= c10::isFloatingType(dtype);
    result.all_discrete &= c10::isIntegralType(dtype, true);
    // Numbers are never converted to a mask's dtype.
    if (dtype != c10::ScalarType::Bool) result.largest = std::min(result.largest, largest_of(dtype));
  });
  result.real = floating && !others;
  return result;
}

bool depends(Takes how, const Argument& number, const Tensors& tensors, c10::ScalarType wanted) {
  constexpr double kSixtyFourBits = 0x1p63;
  const bool is_float = PyFloat_Check(number.object);
  const bool is_whole = number.expr && number.expr->type == shape::Type::Int;  // expressions are 64-bit
  const bool fits_64_bits = is_float || is_whole || number.range.bound() < kSixtyFourBits;
  // Among integers a float is converted to the default dtype, whichever that is.
  const double bound = tensors.real && is_float ? number.range.finite_bound() : number.range.bound();
  const bool fits = bound <= tensors.largest && !(is_float && tensors.all_discrete);
  switch (how) {
    case Takes::Not:
      return true;
    case Takes::AsNumpy:  // dtypes follow from types
      return false;
    case Takes::Mixes:
      return !fits_64_bits;
    case Takes::Divides:
      return !fits_64_bits || !tensors.all_floating;
    case Takes::Scales:
      return !fits;
    case Takes::Raises:
      return !fits || !tensors.all_floating;
    case Takes::Makes:
      return !is_float || !c10::isFloatingType(wanted);
    case Takes::Fills:
      return !is_float || !c10::isFloatingType(wanted) || number.range.finite_bound() > largest_of(wanted);
  }
  return true;
}

}  // namespace

Interval floats_of(const Record& record) {
  const bool wide = largest_of(static_cast<c10::ScalarType>(record.dtype)) == std::numeric_limits<double>::max();
  Interval result =
      Interval::around_zero(wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
  result.special = true;
  return result;
}

NumberPlaces::NumberPlaces(const Call& call) : taker_(taker_of(call)) {}

Takes NumberPlaces::at(uint32_t position) const { return taker_ ? taker_->positions[position] : Takes::Not; }

Takes NumberPlaces::under(PyObject* keyword) const {
  if (!taker_ || keyword == input_name()) return Takes::Not;
  return taker_->keywords.at(keyword);
}

void each_number(const Call& call, const std::function<void(const Argument&, bool)>& visit) {
  const NumberPlaces places(call);
  const Tensors tensors = tensors_of(call);
  const c10::ScalarType wanted = wanted_dtype(call);
  auto look = [&](const Argument& argument, Takes how) {
    const bool is_of_tensors = how != Takes::Makes && how != Takes::Fills;
    each_leaf(argument, [&](const Argument& leaf) {
      if (leaf.kind == Argument::Number)
        visit(leaf, (!tensors.any && is_of_tensors) || depends(how, leaf, tensors, wanted));
    });
  };
  for (uint32_t i = 0; i < call.arg_count; ++i) look(call.args[i], places.at(i));
  for (uint32_t i = 0; i < call.keyword_count; ++i) look(call.keyword_args[i], places.under(call.keyword_names[i]));
}

}  // namespace gramme::meta
