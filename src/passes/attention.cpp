// Watches what scaled_dot_product_attention calls when sizes repeat, and then calls the flash kernel directly.
#include "passes/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_cpu_dispatch.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where_cpu_dispatch.h>
#include <ATen/record_function.h>

#include <array>
#include <limits>
#include <utility>

#include "tape/composites.h"
#include "tape/remembered.h"
#include "tape/typed.h"

namespace gramme::native {
namespace {

enum Argument : size_t { kQuery, kKey, kValue, kMask, kDropout, kCausal, kScale, kGroups };

/// The values of a float mask for true and false.
struct MaskValues {
  at::Tensor kept, left_out;
};

const MaskValues& mask_values(c10::ScalarType dtype) {
  auto made = [](c10::ScalarType type) {
    return MaskValues{at::scalar_tensor(0.0, type), at::scalar_tensor(-std::numeric_limits<double>::infinity(), type)};
  };
  // no Python: allocations
  static const auto* const values =
      new std::array{made(c10::kFloat), made(c10::kDouble), made(c10::kBFloat16), made(c10::kHalf)};
  return (*values)[dtype == c10::kFloat ? 0 : dtype == c10::kDouble ? 1 : dtype == c10::kBFloat16 ? 2 : 3];
}

struct Attention final : Bound {
  Instruction whole;  // the operator
  Register query, key, value, mask;
  bool causal;
  std::optional<double> scale;
  int32_t remembered;
};

/// The process settings that the choice of a kernel depends on.
int64_t settings() {
  const KernelSettings now = KernelSettings::read();
  return now.flash | now.efficient << 1 | now.math << 2 | now.overrideable << 3;
}

/// One call's operands.
struct Operands {
  Operands(const Attention& self, const Run& run)
      : query(*run.tensors[self.query]),
        key(*run.tensors[self.key]),
        value(*run.tensors[self.value]),
        mask(self.mask == kNone ? nullptr : run.tensors[self.mask]) {}

  const at::Tensor &query, &key, &value;
  const BorrowedOptional mask;
};

bool are_as_before(const Operands& operands, const Remembered& before) {
  if (before.of.empty()) return false;
  const int64_t* at = before.of.data();
  const std::optional<at::Tensor>& mask = operands.mask;
  return *at++ == settings() && before.has(operands.query, &at) && before.has(operands.key, &at) &&
         before.has(operands.value, &at) && (!mask || before.has(*mask, &at));
}

void note(const Operands& operands, Remembered& result) {
  const std::optional<at::Tensor>& mask = operands.mask;
  result.known = false;
  result.of.assign(1, settings());
  for (const at::Tensor* tensor : {&operands.query, &operands.key, &operands.value}) result.note(*tensor);
  if (mask) result.note(*mask);
}

bool is_flash(const at::RecordFunction& function) {
  const std::optional<c10::OperatorName> name = function.operator_name();
  return name && name->name == "aten::_scaled_dot_product_flash_attention_for_cpu";
}

class Watch;

struct Thread {
  Watch* watch = nullptr;  // the innermost
};
thread_local constinit Thread of_thread;

/// Scope that detects whether the operator calls flash attention on its own operands.
class Watch {
 public:
  Watch(const Attention& self, const Operands& operands)
      : self_(self),
        operands_(operands),
        before_(std::exchange(of_thread.watch, this)),
        handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  ~Watch() {
    at::removeCallback(handle_);
    of_thread.watch = before_;
  }
  Watch(const Watch&) = delete;

  bool saw(const at::Tensor& result) const { return fits_ && made_.is_same(result); }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (of_thread.watch && is_flash(function)) of_thread.watch->fits_ = of_thread.watch->fits(function.inputs());
    return nullptr;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    if (of_thread.watch && is_flash(function)) of_thread.watch->made_ = function.outputs()[0].toTensor();
  }

  bool fits(c10::ArrayRef<const c10::IValue> given) const {
    const std::optional<at::Tensor>& mask = operands_.mask;
    auto is = [](const c10::IValue& value, const at::Tensor& tensor) {
      return value.isTensor() && value.toTensor().is_same(tensor);
    };
    const bool masks = !mask ? given[5].isNone() : mask->scalar_type() == c10::kBool || is(given[5], *mask);
    return is(given[0], operands_.query) && is(given[1], operands_.key) && is(given[2], operands_.value) &&
           given[3].toDouble() == 0 && given[4].toBool() == self_.causal && masks &&
           given[6].toOptional<double>() == self_.scale;
  }

  const Attention& self_;
  const Operands& operands_;
  Watch* before_;
  at::CallbackHandle handle_;
  bool fits_ = false;
  at::Tensor made_;
};

/// What the operator does after choosing flash attention.
at::Tensor flash(const Attention& self, const Operands& operands) {
  const std::optional<at::Tensor>& mask = operands.mask;
  auto attend = [&](const std::optional<at::Tensor>& floats) {
    return std::get<0>(at::cpu::_scaled_dot_product_flash_attention_for_cpu(
        operands.query, operands.key, operands.value, 0.0, self.causal, floats, self.scale));
  };
  if (!mask || mask->scalar_type() != c10::kBool) return attend(mask);
  const MaskValues& values = mask_values(operands.query.scalar_type());
  return attend(at::cpu::where(*mask, values.kept, values.left_out));
}

/// Runs the instruction. The operator is watched when the same sizes come a second time, so that constantly changing
/// sizes cost nothing.
void run_attention(const Instruction& instruction, Run& run) {
  const auto& self = static_cast<const Attention&>(*instruction.bound);
  auto call_whole = [&] { self.whole.invoke(self.whole, run); };
  if (!goes_straight(instruction, run)) return call_whole();
  Remembered& before = run.remembered[self.remembered];
  const Operands operands(self, run);
  at::Tensor& result = run.own[instruction.call->results[0].registers[0]];
  if (!are_as_before(operands, before)) {
    note(operands, before);
    return call_whole();
  }
  if (before.known) return before.flash ? void(result = flash(self, operands)) : call_whole();
  const Watch watch(self, operands);
  call_whole();
  before.flash = watch.saw(result);
  before.known = true;
}

/// True for an ordinary call for which flash attention may be chosen.
bool is_plain(const OperatorCall& call) {
  auto is_tensor = [&](Argument i) { return call.arguments[i].kind == OperatorArgument::Tensor; };
  auto is_constant = [&](Argument i) { return call.arguments[i].kind == OperatorArgument::Constant; };
  const c10::IValue& dropout = call.arguments[kDropout].constant;
  return is_tensor(kQuery) && is_tensor(kKey) && is_tensor(kValue) &&
         (is_tensor(kMask) || (is_constant(kMask) && call.arguments[kMask].constant.isNone())) &&
         is_constant(kDropout) && dropout.isDouble() && dropout.toDouble() == 0 && is_constant(kCausal) &&
         is_constant(kScale) && is_constant(kGroups) && !call.arguments[kGroups].constant.toBool() &&
         call.results[0].kind == OperatorResult::Tensor;
}

}  // namespace

void bind_attention(Instruction& instruction, int32_t& remembered) {
  const OperatorCall& call = *instruction.call;
  const bool fits = instruction.typed && !instruction.keys.empty();
  if (!fits || call.op.operator_name().name != "aten::scaled_dot_product_attention" || !is_plain(call)) return;
  auto bound = std::make_unique<Attention>();
  auto register_at = [&](Argument i) { return optional_register_of(call.arguments[i]); };
  bound->query = register_at(kQuery);
  bound->key = register_at(kKey);
  bound->value = register_at(kValue);
  bound->mask = register_at(kMask);
  bound->causal = call.arguments[kCausal].constant.toBool();
  bound->scale = call.arguments[kScale].constant.toOptional<double>();
  bound->remembered = remembered++;
  bound->whole.call = std::make_unique<OperatorCall>(call);
  bound->whole.keys = instruction.keys;
  bound->whole.typed = true;
  bound->whole.bound = std::move(instruction.bound);
  bound->whole.invoke = std::exchange(instruction.invoke, run_attention);
  instruction.bound = std::move(bound);
}

}  // namespace gramme::native
