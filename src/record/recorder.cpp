// Registers by tensor identity, the RecordFunction callbacks, and the description of each observed call.
#include "record/recorder.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <string_view>

#include "tape/composites.h"
#include "tape/numerals.h"

namespace gramme::native {
namespace {

struct Thread {
  Recorder* watching = nullptr;
};
thread_local constinit Thread of_thread;

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  if (of_thread.watching) of_thread.watching->begin(function);
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (of_thread.watching) of_thread.watching->end(function);
}

bool is_mask(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return false;
  const c10::ScalarType dtype = value.toTensor().scalar_type();
  return dtype == c10::kBool || dtype == c10::kByte;
}

bool makes_tensor(const OperatorCall& call) {
  return std::any_of(call.results.begin(), call.results.end(),
                     [](const OperatorResult& result) { return result.kind != OperatorResult::Dropped; });
}

/// The argument kind for a list of numbers, by its item type; nullopt for other lists.
std::optional<OperatorArgument::Kind> kind_of_list(c10::TypePtr type) {
  if (const auto maybe = type->cast<c10::OptionalType>()) type = maybe->getElementType();
  const auto list = type->cast<c10::ListType>();
  if (!list) return std::nullopt;
  using Item = c10::TypeKind;
  const Item item = list->getElementType()->kind();
  if (item == Item::IntType || item == Item::SymIntType) return OperatorArgument::Integers;
  if (item == Item::FloatType || item == Item::SymFloatType) return OperatorArgument::Floats;
  return item == Item::NumberType ? std::optional(OperatorArgument::Scalars) : std::nullopt;
}

/// True if autocast handles the operator where it is on. PyTorch's own such kernels decide by types and sizes only.
bool has_autocast_kernel(const c10::OperatorHandle& op) {
  return op.operator_name().getNamespace() == "aten" && op.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
}

/// True if `is` holds for a tensor among the arguments.
template <class Is>
bool any_tensor(c10::ArrayRef<const c10::IValue> inputs, Is&& is) {
  auto holds = [&](const c10::IValue& part) {
    return part.isTensor() && part.toTensor().defined() && is(part.toTensor());
  };
  return std::ranges::any_of(inputs, [&](const c10::IValue& value) { return any_part(value, holds); });
}

/// True for a tensor that autocast may cast.
bool is_float(const at::Tensor& tensor) { return tensor.is_floating_point(); }
bool is_wrapper(const at::Tensor& tensor) { return tensor.key_set().has_any(c10::python_ks); }
bool is_differentiable(const at::Tensor& tensor) { return tensor.requires_grad(); }

bool is_tensor_type(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; }

}  // namespace

// ---- tensors

void Recorder::reserve(size_t tensors) {
  known_.reserve(tensors);
  weak_.reserve(tensors);
  seen_.reserve(tensors);
}

Register Recorder::find(const at::Tensor& tensor) const {
  auto found = known_.find(tensor.unsafeGetTensorImpl());
  return found == known_.end() ? kNone : found->second;
}

Register Recorder::find_or_place(const at::Tensor& tensor) const {
  const Register r = find(tensor);
  return r == kNone ? find_place(tensor) : r;
}

std::shared_ptr<const Recorder> Recorder::snapshot() const {
  auto made = std::make_shared<Recorder>(apart_, any_sizes_);
  made->next_ = next_;
  made->seen_ = seen_;
  made->constants_ = constants_;
  return made;
}

Register Recorder::add(const at::Tensor& tensor, bool data_shaped) {
  const Register r = next_++;
  const auto [known, is_new] = known_.emplace(tensor.unsafeGetTensorImpl(), r);
  learnt_.emplace_back(known->first, is_new ? kNone : std::exchange(known->second, r));
  weak_.emplace_back(tensor.getIntrusivePtr());
  seen_.push_back(describe(tensor));
  seen_.back().data_shaped = data_shaped;
  if (tensor.defined() && !seen_.back().plain) wrappers_.emplace_back(tensor.unsafeGetTensorImpl(), r);
  return r;
}

void Recorder::undo() {
  for (; !learnt_.empty(); learnt_.pop_back()) {
    const auto& [tensor, before] = learnt_.back();
    if (before == kNone)
      known_.erase(tensor);
    else
      known_[tensor] = before;
  }
}

Register Recorder::another(Register like) {
  weak_.emplace_back(at::Tensor().getIntrusivePtr());
  seen_.push_back(Seen(seen(like)));
  seen_.back().storage = reinterpret_cast<const c10::StorageImpl*>(&stand_ins_.emplace_back());
  return next_++;
}

void Recorder::note_place(Register r, const at::Tensor& tensor) {
  if (!seen(r).plain) return;
  weak_storages_.emplace_back(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl()));
  places_[seen(r).storage].push_back(r);
}

Register Recorder::find_place(const at::Tensor& tensor) const {
  if (places_.empty() || !tensor.defined()) return kNone;
  const Seen now = describe(tensor);
  auto found = places_.find(now.storage);
  if (!now.plain || found == places_.end()) return kNone;
  for (Register r : found->second)
    if (seen(r).type == now.type) return r;
  return kNone;
}

/// Forgets dead functorch wrappers: a weak reference to one keeps what it wraps in memory, unlike for plain tensors.
void Recorder::forget_dead_wrappers() {
  std::erase_if(wrappers_, [this](const auto& wrapper) {
    auto& weak = weak_[static_cast<size_t>(wrapper.second)];
    if (!weak.expired()) return false;
    auto found = known_.find(wrapper.first);
    if (found != known_.end() && found->second == wrapper.second) known_.erase(found);
    weak.reset();
    return true;
  });
}

Register Recorder::constant(const at::Tensor& tensor) {
  const Register r = add(tensor);
  constants_.emplace_back(r, tensor);
  return r;
}

Seen Recorder::describe(const at::Tensor& tensor) const {
  Seen seen;
  if (tensor.defined()) {
    seen.keys = tensor.key_set();
    seen.plain = tensor.layout() == c10::kStrided && tensor.device().is_cpu() && tensor.has_storage() &&
                 !tensor.is_conj() && !tensor.is_neg() && !seen.keys.has_any(c10::python_ks) && !tensor.is_quantized();
    if (seen.plain) seen.storage = tensor.storage().unsafeGetStorageImpl();
    seen.type = aten::type_below_autograd(tensor, seen.plain);
  }
  return seen;
}

// ---- calls

Recorder::Watch::Watch(Recorder& recorder) : before_(std::exchange(of_thread.watching, &recorder)) {
  if (before_) return;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

Recorder::Watch::~Watch() {
  if (handle_) at::removeCallback(*handle_);
  of_thread.watching = before_;
}

const Recorder::Operator& Recorder::operator_of(const at::RecordFunction& function) {
  auto [found, added] = operators_.try_emplace(function.name());
  Operator& known = found->second;
  if (!added) return known;
  if (std::optional<c10::OperatorName> name = function.operator_name())
    known.op = c10::Dispatcher::singleton().findSchema(*name);
  if (!known.op) return known;
  known.apart = apart_ != Apart::None && is_taken_apart(*known.op);
  known.linear = known.op->operator_name().name == "aten::linear";
  known.autocast = apart_ == Apart::Composites && has_autocast_kernel(*known.op);
  known.by_data = known.op->hasTag(at::Tag::data_dependent_output);
  known.shape_by_data = known.op->hasTag(at::Tag::dynamic_output_shape);
  known.opaque = is_known_of_library(*known.op);
  known.indexes = known.op->operator_name().name == "aten::index";
  known.keeps_sizes =
      known.op->hasTag(at::Tag::pointwise) || known.op->operator_name().name.starts_with("aten::_foreach_");
  return known;
}

/// True if result sizes, or the operator's behaviour, depend on data. For indexing that is so with masks only.
bool Recorder::depends_on_data(const Operator& known, c10::ArrayRef<const c10::IValue> inputs) {
  if (known.by_data || !known.shape_by_data) return known.by_data;
  if (!known.indexes || inputs.size() < 2 || !inputs[1].isList()) return true;
  const auto indices = inputs[1].toListRef();
  return std::any_of(indices.begin(), indices.end(), is_mask);
}

void Recorder::begin(const at::RecordFunction& function) {
  if (passes_over_ranges_ && !function.operator_name()) return;
  if (looks_below_wrappers_ && open_.empty() && ignored_ == 0) {
    if (c10::impl::TorchDispatchModeTLS::any_modes_set()) return void(++ignored_);  // sizes are inferred
    if (any_tensor(function.inputs(), is_wrapper))
      return;  // its end comes while nothing is open, and is passed over there
  }
  forget_dead_wrappers();
  const Operator& known = operator_of(function);
  const auto& op = known.op;
  const bool data = depends_on_data(known, function.inputs());
  if (data && std::ranges::none_of(open_, &Open::opaque))
    for (const Open& open : open_) open.record->data_shaped = true;
  const c10::DispatchKeySet excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  const bool autocast = known.autocast && !excluded.has(c10::DispatchKey::AutocastCPU);
  if (ignored_ > 0 || (!open_.empty() && !open_.back().apart)) {
    if (!open_.empty()) open_.back().record->casts_inside |= autocast && any_tensor(function.inputs(), is_float);
    ++ignored_;
    return;
  }
  std::vector<Observed>& siblings = open_.empty() ? observed_ : open_.back().record->parts;
  // no Python: the dispatcher's table
  static const c10::OperatorHandle* const unknown =
      new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty", "memory_format"));
  Observed& record = siblings.emplace_back(Observed{OperatorCall{op.value_or(*unknown), {}, {}}});
  record.grad_mode = c10::GradMode::is_enabled();
  record.call.below_autograd = excluded.isSupersetOf(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  record.differentiates =
      record.grad_mode && !record.call.below_autograd && any_tensor(function.inputs(), is_differentiable);
  record.data_shaped = data || sizes_ == Sizes::Vary;
  record.autocast = autocast;
  record.blind = op && !data && known.apart && is_blind_to_sizes(*op, function.inputs());
  if (!op) {
    record.unusable = "it is not an operator of the dispatcher";
  } else {
    const auto& declared = op->schema().arguments();
    const auto inputs = function.inputs();
    if (inputs.size() != declared.size()) record.unusable = "its arguments are not those of its schema";
    record.call.arguments.reserve(declared.size());
    for (size_t i = 0; i < std::min(inputs.size(), declared.size()); ++i) {
      record.call.arguments.push_back(argument(inputs[i], declared[i], record));
      record.data_shaped |= changes_sizes(record.call.arguments.back(), known);
      const auto* alias = declared[i].alias_info();
      if (alias && alias->isWrite())
        for (Register r : record.call.arguments.back().registers) record.written.push_back(r);
    }
  }
  open_.push_back({&record, next_, learnt_.size(), takes_apart(known) || record.autocast, known.opaque});
}

void Recorder::end(const at::RecordFunction& function) {
  if (passes_over_ranges_ && !function.operator_name()) return;
  if (ignored_ > 0) {
    --ignored_;
    return;
  }
  if (open_.empty()) return;
  const Open open = open_.back();
  const auto& declared = open.record->call.op.schema().returns();
  const auto outputs = function.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* alias = i < declared.size() ? declared[i].alias_info() : nullptr;
    open.record->call.results.push_back(result(outputs[i], alias && alias->isWrite(), open));
  }
  const bool tells = std::any_of(outputs.begin(), outputs.end(), [](const c10::IValue& value) {
    return !value.isNone() && !value.isTensor() && !value.isTensorList();
  });
  open.record->only_tells = tells && open.record->written.empty() && !makes_tensor(open.record->call);
  open_.pop_back();
  if (open_.empty()) forget_parts(open);
}

/// Undoes registers that parts gave to existing tensors they returned, if the call stays whole: after the call these
/// tensors have their old registers, unless the call itself returns them.
void Recorder::forget_parts(const Open& open) {
  for (size_t i = learnt_.size(); i-- > std::min(open.first_learnt, learnt_.size());) {
    const auto& [tensor, before] = learnt_[i];
    const auto known = known_.find(tensor);
    if (before == kNone || before >= open.first_new || known == known_.end()) continue;
    const bool given = std::ranges::any_of(open.record->call.results, [&](const OperatorResult& result) {
      return std::ranges::find(result.registers, known->second) != result.registers.end();
    });
    if (!given) known->second = before;
  }
}

OperatorArgument Recorder::argument(const c10::IValue& value, const c10::Argument& declared, Observed& record) {
  return symbols_ && any_part(value, is_symbol) ? symbolic(value, declared, record)
                                                : plain_argument(value, declared, record);
}

OperatorArgument Recorder::plain_argument(const c10::IValue& value, const c10::Argument& declared, Observed& record) {
  OperatorArgument argument;
  const bool left_out = value.isTensor() && !value.toTensor().defined();
  if (left_out && declared.type()->kind() == c10::TypeKind::OptionalType) return argument;
  if (value.isTensor()) {
    argument.kind = OperatorArgument::Tensor;
    argument.registers = {read(value.toTensor(), record)};
    return argument;
  }
  const auto list = declared.type()->cast<c10::ListType>();
  if (list && value.isList() && is_tensor_type(list->getElementType())) {
    argument.kind = OperatorArgument::Tensors;
    for (const c10::IValue& item : value.toListRef()) argument.registers.push_back(read(item.toTensor(), record));
    return argument;
  }
  const auto maybe = list ? list->getElementType()->cast<c10::OptionalType>() : nullptr;
  if (maybe && value.isList() && is_tensor_type(maybe->getElementType())) {
    argument.kind = OperatorArgument::MaybeTensors;
    for (const c10::IValue& item : value.toListRef()) {
      const bool none = item.isNone() || !item.toTensor().defined();
      argument.registers.push_back(none ? kNone : read(item.toTensor(), record));
    }
    return argument;
  }
  if (any_part(value, [](const c10::IValue& part) { return part.isTensor(); }))
    record.unusable = "it takes tensors in a way gramme does not know";
  argument.constant = value;
  return argument;
}

/// The argument, with symbols in it.
OperatorArgument Recorder::symbolic(const c10::IValue& value, const c10::Argument& declared, Observed& record) {
  OperatorArgument argument;
  const auto kind = value.isList()
                        ? kind_of_list(declared.real_type())
                        : std::optional(value.isTensor() ? OperatorArgument::NumberTensor : OperatorArgument::Number);
  bool known = kind.has_value();
  each_part(value, [&](const c10::IValue& part) {
    const std::optional<Numeral> number = numeral_of(part);
    known &= number.has_value() && (!value.isList() || !part.isTensor());
    if (number) argument.numbers.push_back(*number);
  });
  if (known && value.isList()) known = argument.numbers.size() == value.toListRef().size();  // not a list of lists
  if (!known) record.unusable = "it takes numbers in a way gramme does not know";
  argument.kind = kind.value_or(OperatorArgument::Constant);
  return argument;
}

/// True if other values of the argument's numbers may change the sizes of results.
bool Recorder::changes_sizes(const OperatorArgument& argument, const Operator& known) const {
  const bool floats = sizes_ != Sizes::Fixed && !known.keeps_sizes;
  return std::ranges::any_of(argument.numbers, [floats](const Numeral& number) {
    return number.kind == Numeral::Whole || (floats && number.kind != Numeral::Constant);
  });
}

Register Recorder::read(const at::Tensor& tensor, Observed& record) {
  const Register r = find_or_place(tensor);
  if (r != kNone) {
    record.data_shaped |= seen(r).data_shaped;
    return r;
  }
  // A Python number among the arguments becomes a new tensor at every call.
  if (tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    record.foreign = true;
    record.unusable = "it reads a tensor that no operator made";
  }
  return constant(tensor);
}

/// `is_argument`: the operator returns an argument that it wrote.
OperatorResult Recorder::result(const c10::IValue& value, bool is_argument, const Open& open) {
  OperatorResult result;
  if (is_argument) return result;
  if (value.isTensor()) {
    const Register r = made(value.toTensor(), open);
    if (r != kNone) result = {OperatorResult::Tensor, {r}};
  } else if (value.isTensorList()) {
    result.kind = OperatorResult::Tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) result.registers.push_back(made(tensor, open));
  } else if (!value.isNone()) {
    open.record->unusable = "its result is not a tensor";
  }
  return result;
}

/// The register of a result; kNone for a tensor that existed before, if that does not depend on data.
Register Recorder::made(const at::Tensor& tensor, const Open& open) {
  if (!tensor.defined()) return kNone;
  const Register known = find(tensor);
  const bool varies = open.record->data_shaped && !open.record->blind;
  if (known == kNone) return add(tensor, open.record->data_shaped);
  if (known >= open.first_new && (!varies || seen(known).data_shaped)) return known;
  if (varies) return add(tensor, true);
  const c10::OperatorHandle& op = open.record->call.op;
  // other namespaces may have hidden effects, such as waiting for a collective
  open.record->gives_back = op.operator_name().getNamespace() == "aten" || is_known_of_library(op);
  return kNone;
}

}  // namespace gramme::native
