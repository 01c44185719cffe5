// Decodes a code object with cpython's decoder into one vector of instructions, and keeps the result in the code
// object's extra data.
#include "bytecode/code.h"

#include <algorithm>

#include "base/code_unit.h"
#include "base/error.h"
#include "base/ref.h"
#include "cpython/code_object.h"
#include "cpython/encoding.h"

namespace gramme::bytecode {

Code::Code(PyCodeObject* code) : code_(code), index_of_(cpython::unit_count(code), -1) {
  Owned<> keeps;
  const cpython::Units units = cpython::compiled_units(code, &keeps);
  for (int unit = 0; unit < units.count;) {
    const cpython::Decoded decoded = cpython::decode_at(units, unit);
    add(decoded);
    unit = decoded.next;
  }
  cpython::ExceptionTable table(code);
  for (cpython::ExceptionTable::Entry entry; table.next(&entry);)
    handlers_.push_back({entry.start, entry.end, {entry.target, entry.depth, entry.lasti}});
}

void Code::add(const cpython::Decoded& decoded) {
  for (int unit : {decoded.offset, decoded.at, decoded.inner})
    if (unit >= 0) index_of_[unit] = static_cast<int32_t>(instructions_.size());
  for (int i = 0; i < decoded.count; ++i) {
    const auto [op, arg] = decoded.parts[i];
    const uint32_t properties = i == 0 ? opcode::properties(op) : 0;
    instructions_.push_back({op, (properties & opcode::kResumable) != 0, (properties & opcode::kEnterable) != 0,
                             decoded.wants_bool, arg, decoded.offset, decoded.at, decoded.next, decoded.target,
                             decoded.names});
  }
}

const Handler* Code::handler(int at) const {
  auto after = std::upper_bound(handlers_.begin(), handlers_.end(), at,
                                [](int unit, const Range& range) { return unit < range.start; });
  if (after == handlers_.begin()) return nullptr;
  const Range& range = *(after - 1);
  return at < range.end ? &range.handler : nullptr;
}

/// PyCode_Addr2Line() scans the line table from its start, so after many requests a table by code unit is built.
int Code::line(int unit) const {
  constexpr int kOften = 64;
  if (lines_.empty() && (++line_requests_ < kOften || PyErr_Occurred()))
    return PyCode_Addr2Line(code_, unit * kCodeUnit);
  if (lines_.empty()) {
    lines_.assign(index_of_.size(), -1);
    Owned<> ranges = take(PyObject_CallMethod(reinterpret_cast<PyObject*>(code_), "co_lines", nullptr));
    while (auto range = Owned<>::steal(PyIter_Next(ranges.get()))) {
      PyObject* line = PyTuple_GET_ITEM(range.get(), 2);
      if (line == Py_None) continue;
      auto from = lines_.begin() + PyLong_AsLong(PyTuple_GET_ITEM(range.get(), 0)) / kCodeUnit;
      auto to = lines_.begin() + PyLong_AsLong(PyTuple_GET_ITEM(range.get(), 1)) / kCodeUnit;
      std::fill(from, to, static_cast<int>(PyLong_AsLong(line)));
    }
    PyErr_Clear();
  }
  return unit < 0 ? code_->co_firstlineno : lines_.at(static_cast<size_t>(unit));
}

int Code::max_stack() const { return code_->co_stacksize; }

const Code& decode(PyCodeObject* code) {
  if (void* known = cpython::code_data(code)) return *static_cast<const Code*>(known);
  auto* decoded = new Code(code);
  cpython::set_code_data(code, decoded, [](void* data) { delete static_cast<Code*>(data); });
  return *decoded;
}

}  // namespace gramme::bytecode
