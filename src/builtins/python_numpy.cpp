// NumPy on known numbers: scalars, and functions that return one. Arrays are in python_arrays.cpp.
#include <cstring>

#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/numpy.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "trace/arrays.h"

namespace gramme::builtins {
namespace {

/// numpy.float32(2): called in the capture.
template <Text name>
Value* make_scalar(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("numpy", name.text); });
  if (args.positional && trace::array_of(trace, trace.see(args[0])))
    if (Value* converted = protocol::array_call(trace, type, args)) return converted;
  return fold_or_stop(trace, type, args, "a scalar of NumPy");
}

/// Adds methods without effects that return a number or text.
void add_scalar_methods(const char* type) {
  for (const char* name : {"item", "tolist", "is_integer", "conjugate", "__int__", "__float__", "__index__", "__bool__",
                           "__round__", "__abs__", "__neg__", "__pos__", "__invert__", "__hash__", "__repr__",
                           "__str__", "__format__", "as_integer_ratio", "bit_count"})
    protocol::add_pure("numpy", (std::string(type) + "." + name).c_str());
}

struct ScalarType {
  Row make;
  size_t size;
};
template <Text name>
constexpr ScalarType scalar(size_t size) {
  return {{name.text, &make_scalar<name>}, size};
}
const ScalarType kScalars[] = {scalar<"float64">(8), scalar<"float32">(4), scalar<"float16">(2), scalar<"int64">(8),
                               scalar<"int32">(4),   scalar<"int16">(2),   scalar<"int8">(1),    scalar<"uint8">(1),
                               scalar<"uint16">(2),  scalar<"uint32">(4),  scalar<"bool_">(1)};

}  // namespace

void register_numpy() {
  for (const ScalarType& scalar : kScalars) {
    PyObject* type = real("numpy", scalar.make.name);
    if (!type) return;
    source::add_leaf_type(reinterpret_cast<PyTypeObject*>(type), scalar.size);
    add_scalar_methods(scalar.make.name);
    add_rows("numpy", Takes::Asked, {scalar.make});
  }
  add_pure("numpy",
           {"sqrt",       "cbrt",          "square",    "exp",         "exp2",        "expm1",      "log",
            "log2",       "log10",         "log1p",     "sin",         "cos",         "tan",        "arcsin",
            "arccos",     "arctan",        "arctan2",   "sinh",        "cosh",        "tanh",       "deg2rad",
            "rad2deg",    "hypot",         "floor",     "ceil",        "rint",        "trunc",      "absolute",
            "fabs",       "sign",          "power",     "float_power", "add",         "subtract",   "multiply",
            "divide",     "floor_divide",  "remainder", "fmod",        "maximum",     "minimum",    "negative",
            "reciprocal", "isnan",         "isinf",     "isfinite",    "logical_and", "logical_or", "logical_not",
            "greater",    "greater_equal", "less",      "less_equal",  "equal",       "not_equal"});
  add_pure("numpy", {"prod", "sum",    "mean",   "max", "min", "amax",   "amin",    "round",    "clip", "all",
                     "any",  "argmax", "argmin", "var", "std", "median", "isclose", "allclose", "size", "ndim"});
}

}  // namespace gramme::builtins
