// Plans a fused instruction: which operators qualify, and the kernels for a group.
#pragma once
#include <optional>
#include <unordered_map>

#include "passes/fused_kernels.h"
#include "passes/views.h"
#include "record/recorder.h"

namespace gramme::native {

/// Elements of a tensor, at most.
constexpr int64_t kSmall = 1024;

/// An operand: a tensor, or a number.
struct FusedOperand {
  Register tensor = kNone;
  c10::Scalar number = 0;
};

/// An operator that can be a part.
struct FusedNode {
  enum Kind : uint8_t { Compute, Copy, Fill, Sum, Largest, Smallest, Join };
  Kind kind;
  Register out;
  Operation operation = Operation::Add;
  c10::ScalarType type = c10::kDouble;  // type of the computation
  std::vector<FusedOperand> operands = {};
  std::vector<int64_t> dims = {};  // for Sum, Largest, Smallest
};

/// Recognises the operators that can be fused.
class FusedNodes {
 public:
  FusedNodes(const std::vector<Instruction>& instructions, const Recorder& recorder);
  std::optional<FusedNode> node_of(const Instruction& instruction) const;

 private:
  std::optional<FusedNode> any_node(const OperatorCall& call) const;
  std::optional<FusedNode> arithmetic(const OperatorCall& call, Operation operation) const;
  std::optional<FusedNode> comparison(const OperatorCall& call, Operation operation) const;
  std::optional<FusedNode> extremum(const OperatorCall& call, Operation operation) const;
  std::optional<FusedNode> bits(const OperatorCall& call, Operation operation) const;
  std::optional<FusedNode> of_one(const OperatorCall& call, Operation operation) const;
  std::optional<FusedNode> power(const OperatorCall& call) const;
  std::optional<FusedNode> choice(const OperatorCall& call) const;
  std::optional<FusedNode> copy(const OperatorCall& call) const;
  std::optional<FusedNode> filled(const OperatorCall& call, std::optional<c10::Scalar> number) const;
  std::optional<FusedNode> sum(const OperatorCall& call) const;
  std::optional<FusedNode> first(const OperatorCall& call, bool largest) const;
  std::optional<FusedNode> joined(const OperatorCall& call, bool stacks) const;
  std::optional<FusedOperand> operand(const OperatorArgument& argument) const;
  bool is_small(Register r) const;
  bool is_safe_bound(const FusedOperand& operand) const;
  c10::ScalarType dtype(const FusedOperand& operand) const { return recorder_.seen(operand.tensor).dtype(); }

  const Recorder& recorder_;
  std::unordered_map<Register, c10::Scalar> numbers_;  // Python numbers that became tensors
  std::unordered_map<Register, c10::Scalar> fills_;    // tensors filled with one number
};

/// The kernels of a group of operators and views.
class FusedPlan {
 public:
  FusedPlan(const FusedNodes& nodes, const Recorder& recorder, const std::vector<int>& wanted, Fused& made)
      : nodes_(nodes), recorder_(recorder), wanted_(wanted), made_(made) {}
  /// Plans the group; false if it cannot be fused.
  bool take(const std::vector<Instruction>& group);

 private:
  /// Elements in memory: a base, the first element `origin`, and strides.
  struct Value {
    int32_t base;
    int64_t bytes, origin;
    std::vector<int64_t> sizes, strides;
    c10::ScalarType dtype;
  };
  using Indices = std::vector<int32_t>;

  void find_ends(const std::vector<Instruction>& group);
  const Value* value(Register r);
  bool add_view(const View& view);
  bool add(const FusedNode& node);
  bool add_join(const FusedNode& node, const Value& out);
  bool add_reduction(const FusedNode& node, const Value& out);
  Value* new_value(Register r);
  Spot scratch(int64_t count, c10::ScalarType type);
  std::optional<Spot> operand(const FusedOperand& operand, const Value& out, c10::ScalarType type, Kernel& kernel,
                              int which);
  std::optional<Spot> elements(const Value& value, Indices indices, c10::ScalarType type);
  static std::optional<Indices> order(const Value& out, const Value& in);
  static Indices all(const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                     const std::vector<size_t>& dims);

  const FusedNodes& nodes_;
  const Recorder& recorder_;
  const std::vector<int>& wanted_;
  Fused& made_;
  std::unordered_map<Register, Value> values_;
};

}  // namespace gramme::native
