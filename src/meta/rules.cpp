// Applies a rule: runs the call on numbers for everything but geometry, then puts the rule's sizes and strides in.
#include "meta/rules.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>

#include "aten/python.h"
#include "aten/state.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/fakes.h"
#include "meta/pattern.h"
#include "meta/rule_list.h"
#include "meta/statistics.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

struct State {
  SymbolicStatistics statistics{};  // GIL
};
OfProcess<State> state;

struct Answer {
  Rule rule = nullptr;
  Signature signature;
};

using Answers = std::unordered_map<PyObject*, Answer>;  // by callable or interned method name; kept alive

struct Row {
  const char* homes;
  const char* name;
  Rule rule;
  const char* signature;
};

Signature parsed(const std::string& text) {
  Signature signature;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find(' ', from), text.size());
    std::string name = text.substr(from, to - from);
    from = to + 1;
    const bool takes_rest = name.back() == '*', is_keyword = name.back() == '=';
    if (takes_rest || is_keyword) name.pop_back();
    if (takes_rest) signature.rest_from = signature.names.size();
    signature.names.push_back(intern(name.c_str()));
    if (!is_keyword && signature.rest_from == SIZE_MAX) signature.positional = signature.names.size();
  }
  return signature;
}

const char* module_of(char home) {
  switch (home) {
    case 't':
      return "torch";
    case 'f':
      return "torch.nn.functional";
    case 'n':
      return of_torch::text(of_torch::NnInC);
    default:
      return "operator";
  }
}

void add(Answers& answers, char home, const Row& row) {
  PyObject* target = nullptr;
  if (home == 'm') {
    target = intern(row.name);
  } else {
    Owned<> module = take(import_module(module_of(home)));
    target = PyObject_GetAttrString(module.get(), row.name);
    if (!target) return PyErr_Clear();
  }
  answers[target] = {row.rule, parsed(row.signature)};
}

const Answers& answers() {
  const Answers* known = once([] {
    static constexpr Row kRows[] = {
#define RULE(homes, name, rule, signature) {homes, #name, rules::rule, signature},
#include "torch_shapes.def"
    };
    auto* made = new Answers;
    for (const Row& row : kRows)
      for (const char* home = row.homes; *home; ++home) add(*made, *home, row);
    return made;
  });
  return *known;
}

/// True if no mode changes the meaning of operators.
bool is_plain_state() {
  const aten::GlobalState state = aten::GlobalState::read();
  if (state.function_modes != 0 || state.transforms()) return false;
  return !at::autocast::is_autocast_enabled(at::kCPU) && !at::autocast::is_autocast_enabled(at::kCUDA);
}

bool is_plain(const Argument& leaf) {
  if (leaf.kind == Argument::Number) return true;
  const Record& record = *leaf.record;
  return record.layout == static_cast<int8_t>(c10::kStrided) && !record.inner &&
         !c10::isQIntType(static_cast<c10::ScalarType>(record.dtype)) && aten::is_exact_tensor_type(record.type);
}

size_t count_tensors(const Result& result) {
  size_t count = result.kind == Result::Tensor;
  for (const Result& item : result.items) count += count_tensors(item);
  return count;
}

/// Combines the outcome on numbers with the rule's sizes.
class Assembly {
 public:
  Assembly(const Call& call, const Call& now, const Operands& operands)
      : operands_(operands), leaves_(records(call)), leaves_now_(records(now)) {}

  void assemble(Outcome& outcome) {
    assemble(outcome.result);
    if (next_ != operands_.results.size()) throw NoRule();
    for (Mutation& mutation : outcome.mutations) {
      const auto leaf = static_cast<size_t>(mutation.leaf);
      mutation.record = with_sizes_of(mutation.record, leaves_now_.at(leaf), leaves_.at(leaf));
    }
  }

 private:
  static std::vector<const Record*> records(const Call& call) {
    std::vector<const Record*> found;
    each_leaf(call, [&](const Argument& leaf) {
      if (leaf.kind == Argument::Tensor) found.push_back(leaf.record);
    });
    return found;
  }

  /// The record with the leaf's symbolic sizes, if its present sizes equal the leaf's.
  static const Record* with_sizes_of(const Record* record, const Record* now, const Record* leaf) {
    if (record->sizes != now->sizes || record->strides != now->strides || record->storage_offset != now->storage_offset)
      throw NoRule();
    return with_geometry(record, leaf->sizes, leaf->strides, leaf->storage_offset);
  }

  void assemble(Result& result) {
    for (Result& item : result.items) assemble(item);
    if (result.kind == Result::Number || (result.kind == Result::Constant && result.object.get() != Py_None))
      throw NoRule();
    if (result.kind != Result::Tensor) return;
    if (next_ == operands_.results.size()) throw NoRule();
    const Geometry& made = operands_.results[next_++];
    const Record* now = result.record;
    if (result.same_as >= 0) {
      const auto leaf = static_cast<size_t>(result.same_as);
      result.record = with_sizes_of(now, leaves_now_.at(leaf), leaves_.at(leaf));
      return;
    }
    result.record = with_geometry(now, checked(made.sizes, now->sizes), checked(made.strides, now->strides),
                                  checked(made.offset, now->storage_offset));
  }

  shape::SymInt checked(Expr made, shape::SymInt now) const {
    if (operands_.decide.value(made) != known(now)) throw NoRule();
    return shape::SymInt(made);
  }
  std::vector<shape::SymInt> checked(const Extents& made, const std::vector<shape::SymInt>& now) const {
    if (made.size() != now.size()) throw NoRule();
    std::vector<shape::SymInt> numbers;
    for (size_t i = 0; i < made.size(); ++i) numbers.push_back(checked(made[i], now[i]));
    return numbers;
  }

  const Operands& operands_;
  std::vector<const Record*> leaves_, leaves_now_;
  size_t next_ = 0;
};

Outcome applied(const Answer& answer, const Call& call, const Call& now, const Outcome& outcome_now,
                shape::Assumptions& assumptions) {
  Decisions decide(assumptions);
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.record) decide.require_elements(Geometry(*leaf.record).sizes);
  });
  Operands operands(call, answer.signature, count_tensors(outcome_now.result), decide);
  answer.rule(operands);
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.expr && !operands.read(leaf)) throw NoRule();
  });
  Outcome outcome = outcome_now;
  Assembly(call, now, operands).assemble(outcome);
  outcome.guards = decide.guards();
  return outcome;
}

}  // namespace

namespace {
/// True if view() fails for these strides. PyTorch would ask sympy for which sizes it works, which may not terminate.
bool is_no_view(const Outcome& outcome) {
  return outcome.error && (of_torch::says(outcome.message, of_torch::NoViewOfShape) ||
                           of_torch::says(outcome.message, of_torch::NoViewOfStrides));
}

Outcome without_form(Outcome outcome) {
  outcome.error = outcome.inexpressible = true;
  outcome.raised = false;
  return outcome;
}

bool makes_view(Rule rule) { return rule == rules::view || rule == rules::view_as || rule == rules::unflatten; }

/// True if some stride is a symbol of its own.
bool has_strides_of_its_own(const Record& record) {
  return std::ranges::any_of(record.strides, [&](shape::SymInt stride) {
    return !stride.is_number() && stride.expr()->kind == shape::Kind::Symbol &&
           std::ranges::find(record.sizes, stride) == record.sizes.end();
  });
}
}  // namespace

std::optional<Outcome> by_rule(const Call& call, const std::vector<Level>& levels, shape::Assumptions& assumptions) {
  const auto found = answers().find(call.target);
  if (found == answers().end() || !levels.empty() || !is_plain_state()) return std::nullopt;
  bool plain = true;
  each_leaf(call, [&](const Argument& leaf) { plain = plain && is_plain(leaf); });
  if (!plain) return std::nullopt;
  const CallNow now(call, assumptions);
  const Outcome& known = infer(now.call());
  if (is_no_view(known)) return without_form(known);
  if (known.error || known.warns || known.runs_python || known.opaque) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  try {
    Outcome outcome = applied(found->second, call, now.call(), known, assumptions);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    ++symbolic_statistics().rules;
    symbolic_statistics().rule_seconds += taken.count();
    return outcome;
  } catch (const NoRule&) {
    const bool endless = makes_view(found->second.rule) && call.arg_count > 0 &&
                         call.args[0].kind == Argument::Tensor && has_strides_of_its_own(*call.args[0].record);
    return endless ? std::optional(without_form(known)) : std::nullopt;
  }
}

SymbolicStatistics& symbolic_statistics() { return state->statistics; }

}  // namespace gramme::meta
