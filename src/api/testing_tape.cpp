// Test-only bindings: verifies hand-made tapes, and lists the autograd nodes that a recorded backward may have.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "api/testing.h"
#include "record/nodes.h"
#include "tape/place.h"
#include "tape/tape.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

using namespace native;
using Registers = std::vector<Register>;

/// Verifies a tape of instructions that read, write and free the given registers; the first `inputs` registers are
/// inputs.
void verify_tape(Register inputs, const std::vector<std::tuple<Registers, Registers, Registers>>& instructions,
                 const Registers& returned) {
  // no Python: the dispatcher's table
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  Tape tape;
  tape.program = std::make_shared<Program>();
  tape.first_temporary = tape.registers = inputs;
  auto count = [&](const Registers& registers) {
    for (Register r : registers) tape.registers = std::max(tape.registers, r + 1);
  };
  for (const auto& [reads, writes, frees] : instructions) {
    Instruction& made = tape.instructions.emplace_back();
    made.invoke = [](const Instruction&, Run&) {};
    made.call = std::make_unique<OperatorCall>(
        OperatorCall{op, {{OperatorArgument::Tensors, {}, reads}}, {{OperatorResult::Tensors, writes}}});
    made.frees = frees;
    count(writes);
  }
  Place output{Place::Sequence, 0, share(reinterpret_cast<PyObject*>(&PyList_Type)), {}};
  for (Register r : returned) output.items.push_back({Place::Tensor, r, {}, {}});
  tape.output.push_back(std::move(output));
  tape.verify();
}

}  // namespace

void bind_tape_testing(nb::module_& m) {
  m.def("verify_tape", verify_tape, nb::arg("inputs"), nb::arg("instructions"), nb::arg("returned"));
  m.def("trust_generated_nodes", trust_generated_nodes, nb::arg("on"));
}

}  // namespace gramme::api
