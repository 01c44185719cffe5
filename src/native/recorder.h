// Watching the dispatcher: which operators a call runs, on which tensors.
//
// A thread-local RecordFunction callback sees what PyTorch's Python binding calls, before composite operators and
// autograd split it. Tensors are known by the address of their TensorImpl; a weak reference to each keeps addresses
// from being given out twice while the recorder lives.
#pragma once
#include <ATen/record_function.h>
#include <c10/util/DimVector.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "aten/tensor_type.h"
#include "native/symbolic.h"

namespace gramme::native {

/// An operator that ran.
struct Observed {
  OperatorCall call;
  std::vector<Register> written;   // arguments its schema says it writes
  bool grad_mode = false;          // at the time of the call
  bool only_tells = false;         // its results are no tensors, and it writes nothing
  bool gives_back = false;         // a result is a tensor that was there before, not written by it
  bool data_shaped = false;        // it, or an operator below it, made sizes or decisions out of data
  const char* unusable = nullptr;  // why it cannot be called again as it was
  bool blind = false;              // sizes do not change what it calls and gives back
  std::vector<Observed> parts;     // what it called itself, if it was asked to be taken apart
};

/// What a register held when it was first seen.
struct Seen {
  const aten::TensorType* type = nullptr;  // below autograd; opaque unless `plain`; null if there was no tensor
  c10::DispatchKeySet keys;
  const c10::StorageImpl* storage = nullptr;  // only to compare
  bool plain = false;                         // strided, CPU, no subclass, neither conjugated nor negated
  bool data_shaped = false;                   // its sizes may be others in the next call

  c10::ScalarType dtype() const {
    return type ? static_cast<c10::ScalarType>(type->dtype) : c10::ScalarType::Undefined;
  }
  c10::IntArrayRef sizes() const { return type ? numbers(type->sizes) : c10::IntArrayRef(); }
  c10::IntArrayRef strides() const { return type ? numbers(type->strides) : c10::IntArrayRef(); }
  int64_t offset() const { return type ? type->storage_offset.word() : 0; }

 private:
  /// None of what ran varies.
  static c10::IntArrayRef numbers(const std::vector<shape::SymInt>& all) {
    static_assert(sizeof(shape::SymInt) == sizeof(int64_t));
    return {reinterpret_cast<const int64_t*>(all.data()), all.size()};
  }
};

/// Which operators' inner calls are recorded, too.
enum class Apart : uint8_t { None, Linear, Composites };

class Recorder {
 public:
  /// `any_sizes`: numbers are symbols, and sizes of inputs may be others in the next call, as if data had made them.
  Recorder(Apart apart, bool any_sizes) : apart_(apart), any_sizes_(any_sizes), numbers_(*this) {}
  Recorder(const Recorder&) = delete;

  /// What is no operator, as the engine's ranges around nodes are, is passed over; the operators in it are not.
  void pass_over_ranges() { passes_over_ranges_ = true; }
  /// About so many tensors will be seen.
  void reserve(size_t tensors);
  Register input(const at::Tensor& tensor, bool varies) { return add(tensor, varies); }
  Register constant(const at::Tensor& tensor);
  /// A new register for a tensor, whatever was known of it.
  Register add(const at::Tensor& tensor, bool data_shaped = false);
  /// A register for a tensor like that of another, on memory of its own.
  Register another(Register like);
  /// From now on another tensor on the same place in memory stands for the register when it is read, too, as the
  /// tensors do that autograd has saved.
  void note_place(Register r, const at::Tensor& tensor);
  /// kNone if the tensor was never seen.
  Register find(const at::Tensor& tensor) const;
  /// The same, where the tensor's place will do.
  Register find_or_place(const at::Tensor& tensor) const;
  /// What it knows of registers, for others while this one goes on.
  std::shared_ptr<const Recorder> snapshot() const;
  Register registers() const { return next_; }
  const std::vector<std::pair<Register, at::Tensor>>& constants() const { return constants_; }
  const Seen& seen(Register r) const { return seen_[static_cast<size_t>(r)]; }

  Numbers& numbers() { return numbers_; }
  const Numbers& numbers() const { return numbers_; }
  bool any_sizes() const { return any_sizes_; }
  /// What runs from here on belongs to a step whose results are of such sizes. `symbols`: it is given symbols.
  void begin_step(Sizes sizes, bool symbols) {
    sizes_ = sizes;
    symbols_ = symbols;
  }
  /// True if no operator has begun since the last time they were taken.
  bool is_idle() const { return observed_.empty(); }

  /// Operators run on this thread while it lives are observed.
  class Watch {
   public:
    explicit Watch(Recorder& recorder);
    ~Watch();
    Watch(const Watch&) = delete;

   private:
    Recorder* before_;
    std::optional<at::CallbackHandle> handle_;  // none if an outer watch's callback serves this one too
  };

  /// Those observed since the last time take the place of what is in `observed`.
  void take(std::vector<Observed>& observed) {
    forget_dead_wrappers();
    observed.clear();
    std::swap(observed, observed_);
  }
  /// What is learnt of tensors from here on is no longer known after undo(): nothing of it is on the tape.
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
  /// What a RecordFunction tells of its operator, looked up once.
  struct Operator {
    std::optional<c10::OperatorHandle> op;  // none: it is no operator of the dispatcher
    bool apart = false;                     // its parts may be of interest
    bool linear = false;
    bool by_data = false, shape_by_data = false, indexes = false;
    bool opaque = false;       // what it does with data inside does not matter
    bool keeps_sizes = false;  // no float among its arguments changes the sizes of its results
  };
  struct Open {
    Observed* record;
    Register first_new;  // registers from here on were made by the call
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
  bool passes_over_ranges_ = false;
  Sizes sizes_ = Sizes::Unknown;  // of the results of the step under way
  bool symbols_ = false;          // was it given symbols?
  Numbers numbers_;
  Register next_ = 0;
  ska::flat_hash_map<const c10::TensorImpl*, Register> known_;
  std::vector<std::pair<const c10::TensorImpl*, Register>> learnt_;  // and what was known of them before
  std::unordered_map<const char*, Operator> operators_;              // by the schema's own copy of its name
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> weak_;
  std::vector<std::pair<const c10::TensorImpl*, Register>> wrappers_;  // may hold tensors even when they are dead
  std::vector<std::pair<Register, at::Tensor>> constants_;
  std::vector<Seen> seen_;
  std::deque<char> stand_ins_;  // their addresses stand for storages of tensors that were not made
  std::unordered_map<const c10::StorageImpl*, std::vector<Register>> places_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> weak_storages_;  // no address is given out twice
  std::vector<Observed> observed_;
  std::vector<Open> open_;
  int ignored_ = 0;  // calls under way below one that is not taken apart
};

}  // namespace gramme::native
