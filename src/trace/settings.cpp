// The settings allow_rnn and only_allow_pt2_compliant_ops.
#include "trace/settings.h"

#include <string_view>

#include "aten/state.h"
#include "base/imported.h"
#include "torch/option.h"

namespace gramme::trace {
namespace {

/// True for torch.lstm. AOTAutograd cannot save the workspace of oneDNN's LSTM, and PyTorch's front end does not
/// capture it.
bool is_lstm(const meta::Call& call) {
  return PyCFunction_Check(call.target) &&
         std::string_view(reinterpret_cast<PyCFunctionObject*>(call.target)->m_ml->ml_name) == "lstm";
}

bool is_compliant(PyObject* overload) {
  Owned<> tag = take(PyObject_GetAttrString(imported("torch", "Tag").get(), "pt2_compliant_tag"));
  return PySequence_Contains(take(PyObject_GetAttrString(overload, "tags")).get(), tag.get()) == 1;
}

/// True for an operator of torch.ops with an overload that lacks the tag pt2_compliant_tag.
bool may_be_unfit(PyObject* target) {
  const std::string_view type = Py_TYPE(target)->tp_name;
  if (type == "OpOverload") return !is_compliant(target);
  if (type != "OpOverloadPacket") return false;
  Owned<> names = take(PySequence_Fast(take(PyObject_CallMethod(target, "overloads", nullptr)).get(), "overloads"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names.get()); ++i)
    if (!is_compliant(take(PyObject_GetAttr(target, PySequence_Fast_GET_ITEM(names.get(), i))).get())) return true;
  return false;
}

}  // namespace

void heed_settings(const Policy& policy, const meta::Call& call) {
  static Option rnn(of_torch::DynamoConfig, "allow_rnn"),
      compliant(of_torch::DynamoConfig, "only_allow_pt2_compliant_ops");
  if (policy.contract.differentiates && policy.contract.breaks && is_lstm(call) && aten::grad_enabled() &&
      !rnn.is_set(false))
    cannot(Reason::CallSkipped, "torch.lstm");
  if (call.target && std::string_view(Py_TYPE(call.target)->tp_name).starts_with("Op") && compliant.is_set(false) &&
      may_be_unfit(call.target))
    cannot(Reason::CallSkipped, "an operator without the tag pt2_compliant_tag (only_allow_pt2_compliant_ops)");
}

}  // namespace gramme::trace
