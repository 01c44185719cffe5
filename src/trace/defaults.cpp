// Operations after the program set another default dtype in the segment. The graph runs under the former one, so calls
// get explicit dtypes and conversions.
#include <algorithm>
#include <set>
#include <string_view>

#include "base/imported.h"
#include "base/once.h"
#include "trace/scope.h"

namespace gramme::trace {

using meta::Argument;
using meta::Outcome;
using meta::Result;

namespace {

/// Sets torch's default dtype for a C++ scope.
class Default {
 public:
  Default(PyObject* dtype, PyObject* after) : after_(after) { set(dtype); }
  ~Default() { set(after_); }
  Default(const Default&) = delete;

 private:
  static void set(PyObject* dtype) {
    PyObject* const setter = once([] { return imported("torch", "set_default_dtype").release(); });
    if (!Owned<>::steal(PyObject_CallOneArg(setter, dtype))) PyErr_Clear();
  }

  PyObject* after_;
};

bool alike(const Result& a, const Result& b) {
  return a.kind == b.kind && a.record == b.record && a.object == b.object && a.same_as == b.same_as &&
         a.view_of == b.view_of &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    static_cast<bool (*)(const Result&, const Result&)>(alike));
}

bool alike(const Outcome& a, const Outcome& b) {
  auto same_write = [](const meta::Mutation& x, const meta::Mutation& y) {
    return x.leaf == y.leaf && x.record == y.record;
  };
  return a.error == b.error && alike(a.result, b.result) &&
         std::equal(a.mutations.begin(), a.mutations.end(), b.mutations.begin(), b.mutations.end(), same_write);
}

/// The call with dtype= added.
meta::Call with_dtype(Arena& arena, const meta::Call& call, PyObject* dtype) {
  static PyObject* const name = intern("dtype");
  meta::Call result = call;
  uint32_t n = call.keyword_count;
  auto* values = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (n + 1)));
  auto** names = static_cast<PyObject**>(arena.bytes_for(sizeof(PyObject*) * (n + 1)));
  std::uninitialized_copy_n(call.keyword_args, n, values);
  std::copy_n(call.keyword_names, n, names);
  new (values + n) Argument;
  values[n].object = dtype;
  names[n] = name;
  result.keyword_args = values;
  result.keyword_names = names;
  result.keyword_count = n + 1;
  return result;
}

/// True if the operation first converts whole numbers to the default dtype.
bool converts_whole_numbers(const meta::Call& call) {
  static const std::set<std::string_view> kNames = {
      "truediv", "true_divide", "div",   "divide", "__truediv__", "__rtruediv__", "sqrt",  "rsqrt", "reciprocal",
      "exp",     "exp2",        "expm1", "log",    "log1p",       "log2",         "log10", "sin",   "cos",
      "tan",     "asin",        "acos",  "atan",   "atan2",       "sinh",         "cosh",  "tanh",  "sigmoid"};
  static PyObject* const name_of = intern("__name__");
  Owned<> name =
      call.kind == meta::Call::Method ? share(call.target) : Owned<>::steal(PyObject_GetAttr(call.target, name_of));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) PyErr_Clear();
  return text && kNames.contains(text);
}

bool is_whole(const Argument& argument) {
  if (argument.kind != Argument::Tensor) return false;
  PyObject* dtype = meta::dtype_object(*argument.record);
  for (const char* kind : {"is_floating_point", "is_complex"})
    if (take(PyObject_GetAttrString(dtype, kind)).get() == Py_True) return false;
  return true;
}

/// x.to(dtype), in the graph.
Argument converted(graph::Graph& graph, const std::vector<meta::Level>& levels, Arena& arena, const Argument& x,
                   PyObject* dtype, const graph::Position* position) {
  static PyObject* const name = intern("to");
  auto* args = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * 2));
  new (args) Argument(x);
  new (args + 1) Argument;
  args[1].object = dtype;
  meta::Call call;
  call.kind = meta::Call::Method;
  call.target = name;
  call.args = args;
  call.arg_count = 2;
  const Outcome& outcome = meta::infer(call, levels);
  if (outcome.error || outcome.result.kind != Result::Tensor)
    cannot(Reason::LateEffect, "an operation that depends on torch.set_default_dtype");
  Argument result;
  result.kind = Argument::Tensor;
  result.node = graph.call(call, position);
  result.node->operators = outcome.operators;
  result.node->record = result.record = outcome.result.record;
  return result;
}

/// The call with its whole-number tensors converted to the dtype.
meta::Call with_converted(graph::Graph& graph, const std::vector<meta::Level>& levels, Arena& arena,
                          const meta::Call& call, PyObject* dtype, const graph::Position* position) {
  meta::Call result = call;
  auto* args = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (call.arg_count + 1)));
  for (uint32_t i = 0; i < call.arg_count; ++i)
    new (args + i) Argument(is_whole(call.args[i]) ? converted(graph, levels, arena, call.args[i], dtype, position)
                                                   : call.args[i]);
  result.args = args;
  return result;
}

}  // namespace

/// Rewrites the call so that under the first default dtype it returns what the program's call returns under its own.
const Outcome& Scope::infer(meta::Call& call) {
  const Outcome& wanted = meta::infer(call, modes_.levels(), &capture_.shapes.assumptions);
  if (!modes_.has_other_dtype() || wanted.error) return wanted;
  const Outcome expected = wanted;
  Default first(modes_.first_dtype(), modes_.dtype());
  if (const Outcome& plain = meta::infer(call, modes_.levels()); alike(plain, expected)) return plain;
  if (expected.result.kind == Result::Tensor) {
    meta::Call typed = with_dtype(capture_.arena, call, meta::dtype_object(*expected.result.record));
    if (const Outcome& outcome = meta::infer(typed, modes_.levels()); alike(outcome, expected)) {
      call = typed;
      return outcome;
    }
    if (converts_whole_numbers(call) && expected.mutations.empty()) {
      meta::Call on_numbers =
          with_converted(*graph_, modes_.levels(), capture_.arena, call, modes_.dtype(), capture_.position());
      if (const Outcome& outcome = meta::infer(on_numbers, modes_.levels()); alike(outcome, expected)) {
        call = on_numbers;
        return outcome;
      }
    }
  }
  cannot(Reason::LateEffect, "an operation that depends on torch.set_default_dtype");
}

}  // namespace gramme::trace
