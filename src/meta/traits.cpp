// Reads schemas and tags once per overload.
#include "meta/traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/process.h"
#include "base/ref.h"
#include "meta/kernels.h"

namespace gramme::meta {
namespace {

AtenName aten_name(const c10::OperatorName& op) {
  const size_t start = op.name.find("::");
  return {op.name.substr(start == std::string::npos ? 0 : start + 2),
          op.overload_name.empty() ? "default" : op.overload_name};
}

/// True for the one view operator whose schema declares a write.
bool says_that_a_view_writes(const c10::FunctionSchema& schema) { return schema.name() == "prims::as_strided"; }

void read_arguments(Traits& traits, const c10::FunctionSchema& schema, bool statistics) {
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    const std::string& name = arguments[i].name();
    int position = static_cast<int>(i);
    bool hidden = statistics && (name == "running_mean" || name == "running_var");
    const bool writes = alias && alias->isWrite() && !says_that_a_view_writes(schema);
    if (writes || hidden) traits.written.emplace_back(position, intern(name.c_str()));
    if (name == "dropout_p") traits.dropout = position;
    if (statistics && name == "training") traits.training = position;
  }
}

/// True for operators that make quantized tensors, which FakeTensorMode treats as plain.
bool makes_quantized(const AtenName& name) {
  return name.base.find("quantize") != std::string::npos && !name.base.starts_with("fake_quantize") &&
         !name.base.starts_with("_fake_quantize") && !name.base.starts_with("dequantize");
}

Traits read_traits(PyObject* op) {
  Traits traits;
  Owned<> text = Owned<>::steal(PyObject_CallMethod(op, "name", nullptr));
  if (!text || !PyUnicode_Check(text.get())) return PyErr_Clear(), traits;
  std::string full = PyUnicode_AsUTF8(text.get());  // "aten::add.Tensor"
  size_t dot = full.find('.');
  traits.own = is_own_operator(full);
  std::string overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  auto handle = c10::Dispatcher::singleton().findSchema({full.substr(0, dot), overload});
  if (!handle) {  // a higher-order operator, or a TorchScript query such as prim::device
    traits.raises = may_raise({full.substr(0, dot), overload});
    traits.opaque = traits.raises;
    return traits;
  }
  AtenName name = aten_name(handle->operator_name());
  traits.opaque = false;
  traits.random = handle->hasTag(at::Tag::nondeterministic_seeded);
  traits.raises = may_raise(handle->operator_name());
  traits.integers = raises_on_integers(name);
  const bool python = has_python_kernel(full);
  traits.faked = (!python || has_fake_kernel(full)) && !makes_quantized(name);
  traits.python = python && !is_self_contained(full.substr(0, dot));
  traits.numbers = checked_numbers(name);
  traits.warns = kernel_warns(name);
  traits.composite = handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (name.base.find("index_put") != std::string::npos)
    traits.indices = handle->schema().argumentIndexWithName("indices").value_or(-1);
  read_arguments(traits, handle->schema(), writes_running_statistics(name));
  return traits;
}

struct State {
  std::unordered_map<PyObject*, Traits> known;  // GIL: by operator
  uint64_t kernels = 0;                         // GIL: what python_kernels() was then
  std::vector<Owned<>> held;                    // GIL: operators

  size_t size() const { return known.size(); }
};
OfProcess<State> state;

}  // namespace

bool may_raise(const c10::OperatorName& op) {
  const bool known = op.name.starts_with("aten::") || op.name.starts_with("prim::");
  return !known || !cannot_raise(aten_name(op));
}

const Traits& traits_of(PyObject* op) {
  if (state->kernels != python_kernels()) state->known.clear();
  state->kernels = python_kernels();
  auto found = state->known.find(op);
  if (found != state->known.end()) return found->second;
  state->held.push_back(share(op));  // kept alive: keys are addresses
  return state->known.emplace(op, read_traits(op)).first->second;
}

}  // namespace gramme::meta
