// Test-only bindings of native/invoke: calls one operator as an instruction of a tape does.
#include <ATen/core/LegacyTypeDispatch.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/jit/python/pybind_utils.h>  // sees pybind11: arguments by schema

#include <optional>
#include <string>
#include <vector>

#include "api/testing.h"
#include "aten/python.h"
#include "tape/invoke.h"

namespace nb = nanobind;
namespace py = pybind11;

namespace gramme::api {
namespace {

using namespace native;

c10::OperatorHandle find_operator(const std::string& name) {
  const size_t dot = name.find('.', name.find("::"));
  const bool overloaded = dot != std::string::npos;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                        overloaded ? name.c_str() + dot + 1 : "");
}

bool is_tensor_list(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::TensorType;
}

bool is_maybe_tensor_list(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->isSubtypeOf(*c10::OptionalType::ofTensor()) && !is_tensor_list(type);
}

/// One operator bound to arguments; any number of threads may call it.
class BoundOperator {
 public:
  /// `lengths` are those of results that are lists, in order. With `keyed`, calls go to the CPU's kernels.
  BoundOperator(const std::string& name, nb::tuple args, nb::dict kwargs, bool boxed, bool keyed,
                std::vector<size_t> lengths)
      : keyed_(keyed) {
    instruction_.call.reset(new OperatorCall{find_operator(name), {}, {}});
    OperatorCall& call = *instruction_.call;
    take_arguments(call, py::reinterpret_borrow<py::tuple>(args.ptr()),
                   py::reinterpret_borrow<py::kwargs>(kwargs.ptr()));
    take_results(call, lengths);
    if (keyed) {
      instruction_.keys = c10::DispatchKeySet(c10::DispatchKey::CPU);
      if (call.op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView))
        instruction_.keys = instruction_.keys.add(c10::DispatchKey::ADInplaceOrView);
    }
    boxed ? bind_boxed(instruction_) : bind_operator(instruction_);
  }

  bool typed() const { return instruction_.typed; }

  nb::list call() const {
    std::vector<at::Tensor> own(registers_);
    run(own);
    nb::list results;
    for (const OperatorResult& result : instruction_.call->results) results.append(to_python(result, own));
    return results;
  }

 private:
  void take_arguments(OperatorCall& call, const py::tuple& args, const py::kwargs& kwargs) {
    const c10::FunctionSchema& schema = call.op.schema();
    torch::jit::Stack values =
        torch::jit::createStackForSchema(schema, torch::jit::tuple_slice(args), kwargs, std::nullopt);
    for (size_t i = 0; i < values.size(); ++i)
      call.arguments.push_back(argument(values[i], schema.arguments()[i].real_type()));
  }

  OperatorArgument argument(const c10::IValue& value, const c10::TypePtr& type) {
    OperatorArgument argument;
    if (value.isTensor()) {
      argument.kind = OperatorArgument::Tensor;
      argument.registers.push_back(input(value.toTensor()));
    } else if (is_tensor_list(type)) {
      argument.kind = OperatorArgument::Tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) argument.registers.push_back(input(tensor));
    } else if (is_maybe_tensor_list(type)) {
      argument.kind = OperatorArgument::MaybeTensors;
      for (const c10::IValue& item : value.toListRef())
        argument.registers.push_back(item.isNone() ? kNone : input(item.toTensor()));
    } else {
      argument.constant = value;
    }
    return argument;
  }

  Register input(const at::Tensor& tensor) {
    inputs_.push_back(tensor);
    return registers_++;
  }

  void take_results(OperatorCall& call, const std::vector<size_t>& lengths) {
    size_t lists = 0;
    for (const c10::Argument& returned : call.op.schema().returns()) {
      OperatorResult& result = call.results.emplace_back();
      if (returned.alias_info() && returned.alias_info()->isWrite()) continue;
      if (returned.type()->kind() == c10::TypeKind::TensorType) {
        result.kind = OperatorResult::Tensor;
        result.registers.push_back(registers_++);
      } else if (is_tensor_list(returned.type())) {
        result.kind = OperatorResult::Tensors;
        for (size_t i = 0; i < lengths.at(lists); ++i) result.registers.push_back(registers_++);
        ++lists;
      }
    }
  }

  void run(std::vector<at::Tensor>& own) const {
    std::vector<const at::Tensor*> tensors;
    for (size_t i = 0; i < own.size(); ++i) tensors.push_back(i < inputs_.size() ? &inputs_[i] : &own[i]);
    Run run{};
    run.tensors = tensors.data();
    run.own = own.data();
    run.below_autograd = keyed_;
    nb::gil_scoped_release no_gil;
    std::optional<at::AutoDispatchBelowAutograd> below;
    if (keyed_) below.emplace();
    instruction_.invoke(instruction_, run);
  }

  static nb::object to_python(const OperatorResult& result, const std::vector<at::Tensor>& own) {
    auto wrap = [&](Register r) { return nb::steal(aten::object_of(own[r]).release()); };
    if (result.kind == OperatorResult::Dropped) return nb::none();
    if (result.kind == OperatorResult::Tensor) return wrap(result.registers[0]);
    nb::list list;
    for (Register r : result.registers) list.append(wrap(r));
    return list;
  }

  Instruction instruction_;
  std::vector<at::Tensor> inputs_;
  Register registers_ = 0;
  bool keyed_;
};

}  // namespace

void bind_invoke_testing(nb::module_& m) {
  nb::class_<BoundOperator>(m, "BoundOperator")
      .def(nb::init<const std::string&, nb::tuple, nb::dict, bool, bool, std::vector<size_t>>(), nb::arg("name"),
           nb::arg("args"), nb::arg("kwargs") = nb::dict(), nb::kw_only(), nb::arg("boxed") = false,
           nb::arg("keyed") = false, nb::arg("lengths") = std::vector<size_t>())
      .def_prop_ro("typed", &BoundOperator::typed)
      .def("__call__", &BoundOperator::call);
  m.def("typed_signatures", typed_signatures);
}

}  // namespace gramme::api
