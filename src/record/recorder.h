// Watches the dispatcher: records which operators run on which tensors.
//
// A thread-local RecordFunction callback sees the operators that PyTorch's Python binding calls, before composites and
// autograd split them. Tensors are identified by the address of their TensorImpl; a weak reference to each keeps
// addresses from being reused.
#pragma once
#include <ATen/record_function.h>
#include <c10/util/DimVector.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "aten/tensor_type.h"
#include "record/symbolic.h"

namespace gramme::native {

/// An operator that ran.
struct Observed {
  OperatorCall call;
  std::vector<Register> written;   // arguments that its schema declares as written
  bool grad_mode = false;          // grad mode at the call
  bool differentiates = false;     // autograd may record it
  bool only_tells = false;         // returns no tensors and writes nothing
  bool gives_back = false;         // returns an existing tensor that it did not write
  bool data_shaped = false;        // it, or an operator below it, made sizes or decisions from data
  const char* unusable = nullptr;  // why the call cannot be repeated
  bool foreign = false;            // read a tensor that no operator made: another one at the next call
  bool blind = false;              // makes the same calls for all sizes
  bool casts_inside = false;       // its kernel called operators that autocast handles
  bool autocast = false;           // autocast's kernel of the operator casts arguments and calls it again
  std::vector<Observed> parts;     // the operators it called, if requested
};

/// What is known about the tensor first seen in a register.
struct Seen {
  const aten::TensorType* type = nullptr;  // without autograd metadata; opaque unless `plain`; null: no tensor
  c10::DispatchKeySet keys;
  const c10::StorageImpl* storage = nullptr;  // for comparison only
  bool plain = false;                         // strided, on the CPU, no subclass, not lazily conjugated or negated
  bool data_shaped = false;                   // its sizes may differ at the next call

  c10::ScalarType dtype() const {
    return type ? static_cast<c10::ScalarType>(type->dtype) : c10::ScalarType::Undefined;
  }
  c10::IntArrayRef sizes() const { return type ? numbers(type->sizes) : c10::IntArrayRef(); }
  c10::IntArrayRef strides() const { return type ? numbers(type->strides) : c10::IntArrayRef(); }
  int64_t offset() const { return type ? type->storage_offset.word() : 0; }

 private:
  /// Sizes as plain numbers; none of them vary in a run.
  static c10::IntArrayRef numbers(const std::vector<shape::SymInt>& all) {
    static_assert(sizeof(shape::SymInt) == sizeof(int64_t));
    return {reinterpret_cast<const int64_t*>(all.data()), all.size()};
  }
};

/// Which operators' inner calls are also recorded.
enum class Apart : uint8_t { None, Linear, Composites };

class Recorder {
 public:
  /// `any_sizes`: numbers are symbols, and sizes of inputs may differ at the next call, like data-dependent ones.
  Recorder(Apart apart, bool any_sizes) : apart_(apart), any_sizes_(any_sizes), numbers_(*this) {}
  Recorder(const Recorder&) = delete;

  /// Ignores ranges that are no operators, such as the engine's around nodes, but not the operators inside.
  void pass_over_ranges() { passes_over_ranges_ = true; }
  /// Looks into operators on tensors with __torch_dispatch__: what they call on other tensors is observed instead, but
  /// not under a mode, which computes with tensors without data there.
  void look_below_wrappers() { looks_below_wrappers_ = true; }
  /// Reserves space for about this many tensors.
  void reserve(size_t tensors);
  Register input(const at::Tensor& tensor, bool varies) { return add(tensor, varies); }
  Register constant(const at::Tensor& tensor);
  /// A new register for a tensor, replacing earlier knowledge of it.
  Register add(const at::Tensor& tensor, bool data_shaped = false);
  /// A register for a tensor like another register's, with its own memory.
  Register another(Register like);
  /// Lets other tensors at the same place in memory count as the register when read, as for tensors saved by autograd.
  void note_place(Register r, const at::Tensor& tensor);
  /// The tensor's register; kNone if it was never seen.
  Register find(const at::Tensor& tensor) const;
  /// The same, or the register noted for its place in memory.
  Register find_or_place(const at::Tensor& tensor) const;
  /// A copy of the knowledge about registers.
  std::shared_ptr<const Recorder> snapshot() const;
  Register registers() const { return next_; }
  const std::vector<std::pair<Register, at::Tensor>>& constants() const { return constants_; }
  const Seen& seen(Register r) const { return seen_[static_cast<size_t>(r)]; }

  Numbers& numbers() { return numbers_; }
  const Numbers& numbers() const { return numbers_; }
  bool any_sizes() const { return any_sizes_; }
  /// Starts a step whose results have such sizes. `symbols`: it receives symbols for numbers.
  void begin_step(Sizes sizes, bool symbols) {
    sizes_ = sizes;
    symbols_ = symbols;
  }
  /// True if no operator has begun since the last take().
  bool is_idle() const { return observed_.empty(); }

  /// Scope in which this thread's operators are observed.
  class Watch {
   public:
    explicit Watch(Recorder& recorder);
    ~Watch();
    Watch(const Watch&) = delete;

   private:
    Recorder* before_;
    std::optional<at::CallbackHandle> handle_;  // nullopt if an outer watch's callback is used
  };

  /// Moves the calls observed since the last time into `observed`.
  void take(std::vector<Observed>& observed) {
    forget_dead_wrappers();
    observed.clear();
    std::swap(observed, observed_);
  }
  /// Marks the state to which undo() returns.
  void mark() { learnt_.clear(); }
  void undo();
  void forget() {
    forget_dead_wrappers();
    observed_.clear();
  }

  // For the callback.
  void begin(const at::RecordFunction& function);
  void end(const at::RecordFunction& function);

 private:
  /// Facts about an operator, looked up once per RecordFunction name.
  struct Operator {
    std::optional<c10::OperatorHandle> op;  // nullopt: no operator of the dispatcher
    bool apart = false;                     // its inner calls are recorded
    bool linear = false;
    bool autocast = false;  // autocast handles it
    bool by_data = false, shape_by_data = false, indexes = false;
    bool opaque = false;       // its inner use of data does not matter
    bool keeps_sizes = false;  // float arguments do not change result sizes
  };
  struct Open {
    Observed* record;
    Register first_new;  // registers from here on were made during the call
    size_t first_learnt;
    bool apart;
    bool opaque;
  };
  const Operator& operator_of(const at::RecordFunction& function);
  bool takes_apart(const Operator& known) const {
    return known.apart && (apart_ == Apart::Composites || known.linear || !open_.empty());
  }
  static bool depends_on_data(const Operator& known, c10::ArrayRef<const c10::IValue> inputs);
  OperatorArgument argument(const c10::IValue& value, const c10::Argument& declared, Observed& record);
  OperatorArgument plain_argument(const c10::IValue& value, const c10::Argument& declared, Observed& record);
  OperatorArgument symbolic(const c10::IValue& value, const c10::Argument& declared, Observed& record);
  bool changes_sizes(const OperatorArgument& argument, const Operator& known) const;
  Register read(const at::Tensor& tensor, Observed& record);
  Register find_place(const at::Tensor& tensor) const;
  OperatorResult result(const c10::IValue& value, bool is_argument, const Open& open);
  Register made(const at::Tensor& tensor, const Open& open);
  Seen describe(const at::Tensor& tensor) const;
  void forget_dead_wrappers();
  void forget_parts(const Open& open);

  const Apart apart_;
  const bool any_sizes_;
  bool passes_over_ranges_ = false, looks_below_wrappers_ = false;
  Sizes sizes_ = Sizes::Unknown;  // sizes of the running step's results
  bool symbols_ = false;          // the step received symbols
  Numbers numbers_;
  Register next_ = 0;
  ska::flat_hash_map<const c10::TensorImpl*, Register> known_;
  std::vector<std::pair<const c10::TensorImpl*, Register>> learnt_;  // with their former registers
  std::unordered_map<const char*, Operator> operators_;              // by the address of the schema's name
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> weak_;
  std::vector<std::pair<const c10::TensorImpl*, Register>> wrappers_;  // may hold tensors even when they are dead
  std::vector<std::pair<Register, at::Tensor>> constants_;
  std::vector<Seen> seen_;
  std::deque<char> stand_ins_;  // addresses that stand for storages of tensors that do not exist
  std::unordered_map<const c10::StorageImpl*, std::vector<Register>> places_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> weak_storages_;  // keep addresses from being reused
  std::vector<Observed> observed_;
  std::vector<Open> open_;
  int ignored_ = 0;  // nesting depth below a call whose parts are not recorded
};

}  // namespace gramme::native
