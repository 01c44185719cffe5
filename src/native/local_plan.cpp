// Which tensors a forward keeps for its backward, and whether it can run again.
#include "native/local_plan.h"

#include <algorithm>
#include <unordered_set>

#include "tape/composites.h"
#include "torch/calls.h"

namespace gramme::native {
namespace {

bool detaches(const OperatorCall& call) { return call.op.operator_name().name == "aten::detach"; }

/// True for calls that are not served (gramme/_served.py).
bool is_passed_on(const OperatorCall& call) {
  const c10::OperatorName& name = call.op.operator_name();
  return detaches(call) || of_torch::is_operator(name.name, name.overload_name, of_torch::Wraps);
}

bool communicates(const OperatorCall& call) {
  const c10::OperatorName& name = call.op.operator_name();
  return of_torch::is_operator(name.name, name.overload_name, of_torch::Collective);
}

/// Notes the calls of a forward that may run again, where what is kept is served.
class Notes {
 public:
  Notes(LocalPlan& plan, const LocalCalls& calls) : plan_(plan), calls_(calls) {}

  /// Also keeps what comes of collectives. False if what autograd's formulas save would be other data.
  bool take() {
    for (size_t i = calls_.observed.size(); i-- > 0;) keep_detached(calls_.observed[i].call);
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (plan_.reads[i]) known_.insert(plan_.inputs[i]);
    for (const auto& [r, tensor] : calls_.recorder->constants()) known_.insert(r);
    return std::ranges::all_of(calls_.observed, [this](const Observed& call) { return note(call); }) &&
           std::ranges::all_of(plan_.kept, [this](Register r) { return known_.contains(r); });
  }

 private:
  bool is_kept(Register r) const { return std::ranges::find(plan_.kept, r) != plan_.kept.end(); }

  /// Keeps what a kept tensor was detached from: it has the same memory, and calls that detach are not served.
  void keep_detached(const OperatorCall& call) {
    if (!detaches(call) || call.results[0].kind != OperatorResult::Tensor) return;
    const Register from = call.arguments[0].registers[0];
    const bool is_input = std::ranges::find(plan_.inputs, from) != plan_.inputs.end();
    if (is_kept(call.results[0].registers[0]) && !is_input) plan_.kept.push_back(from);
  }

  /// False for a composite whose calls are not known: they are what a mode sees.
  bool note(const Observed& record) {
    const OperatorCall& call = record.call;
    if (is_composite(call.op))
      return (!record.parts.empty() || record.gives_back) &&
             std::ranges::all_of(record.parts, [this](const Observed& part) { return note(part); });
    bool known = true;
    for (const OperatorArgument& argument : call.arguments)
      for (Register r : argument.registers) known &= r == kNone || known_.contains(r);
    if (!is_passed_on(call)) known |= serve(call);
    if (known)
      for (const OperatorResult& made : call.results) known_.insert(made.registers.begin(), made.registers.end());
    return true;
  }

  /// True if the call's result is served.
  bool serve(const OperatorCall& call) {
    LocalPlan::Call& noted = plan_.calls.emplace_back(LocalPlan::Call{toString(call.op.operator_name()), -1});
    if (call.results.size() != 1 || call.results[0].kind != OperatorResult::Tensor) return false;
    const Register r = call.results[0].registers[0];
    if (!is_kept(r) && !communicates(call)) return false;
    if (!is_kept(r)) plan_.kept.push_back(r);
    noted.kept = static_cast<int32_t>(std::ranges::find(plan_.kept, r) - plan_.kept.begin());
    return true;
  }

  LocalPlan& plan_;
  const LocalCalls& calls_;
  std::unordered_set<Register> known_;  // registers that have their data when the forward runs again
};

}  // namespace

std::string complete(LocalPlan& plan, const LocalCalls& calls, const std::vector<Observed>& observed, Register slot,
                     BackwardKey key, const std::vector<Register>& leaving) {
  const Recorder& recorder = *calls.recorder;
  Origins origins{{slot}, {}, true};
  for (Register r = 0; r < slot; ++r) origins.kept[r] = r;
  std::string why;
  auto backward = ConvertedTape::convert(recorder, observed, std::move(origins), leaving, why);
  if (!backward) return why;
  plan.inputs = calls.inputs;
  for (Register r : plan.inputs) plan.forms.push_back(r == kNone ? Seen() : recorder.seen(r));
  plan.reads.resize(plan.inputs.size());
  for (const BackwardSource& source : backward->sources) {
    if (source.kind == BackwardSource::Slot) continue;
    plan.saves = true;
    const c10::StorageImpl* const storage = recorder.seen(source.index).storage;
    if (storage == recorder.seen(calls.outputs[0]).storage)
      return "the backward reads an output, which the program may write";
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      if (plan.inputs[i] != kNone && recorder.seen(plan.inputs[i]).storage == storage) plan.reads[i] = true;
    if (std::ranges::find(plan.inputs, source.index) == plan.inputs.end()) plan.kept.push_back(source.index);
  }
  if (!Notes(plan, calls).take()) return "it could not run again";
  std::vector<Register> gives = calls.outputs;
  gives.insert(gives.end(), plan.kept.begin(), plan.kept.end());
  auto forward = ConvertedTape::convert(recorder, calls.observed, {calls.inputs, {}, true}, gives, why);
  if (!forward) return why;
  plan.forward = std::make_unique<const ConvertedTape>(std::move(*forward));
  plan.backward = std::make_unique<const BackwardTape>(std::move(key), std::move(*backward));
  plan.key = calls.key;
  return {};
}

}  // namespace gramme::native
