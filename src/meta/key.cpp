// One function per kind of argument, each writing a tagged sequence of words.
#include "meta/key.h"

#include <torch/csrc/Device.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "aten/state.h"
#include "base/error.h"
#include "meta/kernels.h"
#include "meta/numbers.h"
#include "meta/origin.h"

namespace gramme::meta {
namespace {

/// The first word of each part: its kind and length.
uint64_t tag(int kind, uint64_t count = 0) { return static_cast<uint64_t>(kind) << 56 | count; }

enum Tag {
  kTensor = 1,
  kNumber,
  kTuple,
  kList,
  kDict,
  kSlice,
  kPointer,
  kInt,
  kBigInt,
  kFloat,
  kComplex,
  kString,
  kDevice,
  kBound,
  kExpression,
  kLevel
};

bool is_enum_member(PyObject* object) {
  const char* meta = Py_TYPE(Py_TYPE(object))->tp_name;
  return !std::strcmp(meta, "EnumType") || !std::strcmp(meta, "EnumMeta");
}

/// True for unique objects, which their address identifies.
bool known_by_address(PyObject* object) {
  if (object == Py_None || PyBool_Check(object) || object == Py_Ellipsis) return true;
  if (PyType_Check(object) || PyFunction_Check(object)) return is_of_pytorch(object);
  if (PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) || PyBytes_Check(object) ||
      PyByteArray_Check(object) || PyRange_Check(object))
    return false;
  bool heap = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  return !heap || is_enum_member(object) || is_operator(object);
}

}  // namespace

void Key::build(const Call& call, const std::vector<Level>& levels) {
  words_.clear();
  objects_.clear();
  strings_.clear();
  leaves_.clear();
  memoizable_ = !is_of_program(call);
  bool any_leaf = false;
  each_leaf(call, [&any_leaf](const Argument&) { any_leaf = true; });
  const NumberPlaces places(call);
  auto only_types = [any_leaf](Takes how) { return any_leaf && how == Takes::Mixes; };
  add(tag(call.kind, static_cast<uint64_t>(call.arg_count) << 24 | call.keyword_count));
  add_target(call.target);
  add_state();
  for (const Level& level : levels) {
    add(tag(kLevel, static_cast<uint64_t>(level.kind) << 16 | static_cast<uint64_t>(level.enabled) << 8 |
                        static_cast<uint8_t>(level.randomness)));
    add(static_cast<uint64_t>(level.size));
  }
  for (uint32_t i = 0; i < call.arg_count; ++i) {
    only_types_ = only_types(places.at(i));
    add_argument(call.args[i]);
  }
  for (uint32_t i = 0; i < call.keyword_count; ++i) {
    add_held(call.keyword_names[i]);
    only_types_ = only_types(places.under(call.keyword_names[i]));
    add_argument(call.keyword_args[i]);
  }
}

uint64_t Key::hash() const {
  uint64_t hash = words_.size();
  for (uint64_t word : words_) {
    unsigned __int128 product = static_cast<unsigned __int128>(hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash = static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  return hash;
}

void Key::add_held(PyObject* object) {
  add_pointer(object);
  objects_.push_back(object);
}

void Key::add_state() {
  aten::GlobalState state = aten::GlobalState::read();
  add(state.included);
  add(state.excluded);
  add(state.bits);
  add(state.dtypes);
  add(static_cast<uint64_t>(state.function_modes));
  add(python_kernels());
}

/// Adds the callable; for a bound method, which is new at each lookup, its two parts.
void Key::add_target(PyObject* target) {
  if (!PyMethod_Check(target)) return add_held(target);
  add(tag(kBound));
  add_held(PyMethod_GET_FUNCTION(target));
  add_held(PyMethod_GET_SELF(target));
}

void Key::add_argument(const Argument& argument) {
  switch (argument.kind) {
    case Argument::Tensor:
    case Argument::Number:
      return add_leaf(argument);
    case Argument::Constant:
      return add_object(argument.object);
    case Argument::Tuple:
      add(tag(kTuple, argument.count));
      add_pointer(argument.object);
      if (argument.object) objects_.push_back(argument.object);
      break;
    case Argument::List:
      add(tag(kList, argument.count));
      break;
    case Argument::Dict:
      add(tag(kDict, argument.count));
      break;
    case Argument::Slice:
      add(tag(kSlice, argument.count));
      break;
    case Argument::Body:
      if (!argument.object) GRAMME_BUG("a call that runs a graph has no outcome of its own");
      return add_held(argument.object);
  }
  for (uint32_t i = 0; i < argument.count; ++i) add_argument(argument.items[i]);
}

/// Adds the leaf's record, and the index of an earlier leaf that is the same value.
void Key::add_leaf(const Argument& leaf) {
  if (leaf.kind == Argument::Number && leaf.expr) return add(tag(kExpression, leaf.expr->id));
  if (leaf.kind == Argument::Number) {
    add(tag(kNumber));
    return add_object(leaf.object);
  }
  if (!leaf.record) GRAMME_BUG("a tensor argument without a record");
  auto found = std::find(leaves_.begin(), leaves_.end(), leaf.node);
  auto ordinal = static_cast<uint64_t>(found - leaves_.begin());
  if (found == leaves_.end()) leaves_.push_back(leaf.node);
  add(tag(kTensor, ordinal << 32 | leaf.record->id));
}

void Key::add_object(PyObject* object) {
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object))
    return add_number(object);
  if (PyUnicode_CheckExact(object)) return add_text(object);
  if (THPDevice_Check(object)) {
    c10::Device device = reinterpret_cast<THPDevice*>(object)->device;
    return add(tag(kDevice, static_cast<uint64_t>(device.type()) << 8 | static_cast<uint8_t>(device.index())));
  }
  if (PyTuple_Check(object)) {
    add(tag(kTuple, static_cast<uint64_t>(PyTuple_GET_SIZE(object))));
    add_held(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) add_object(PyTuple_GET_ITEM(object, i));
    return;
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    add(tag(kSlice, 3));
    for (PyObject* part : {slice->start, slice->stop, slice->step}) add_object(part);
    return;
  }
  if (!known_by_address(object)) memoizable_ = false;
  add(tag(kPointer));
  add_held(object);
}

void Key::add_number(PyObject* object) {
  if (PyFloat_CheckExact(object)) {
    add(tag(kFloat, only_types_));
    if (!only_types_) add(std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(object)));
  } else if (PyComplex_CheckExact(object)) {
    add(tag(kComplex, only_types_));
    if (only_types_) return;
    add(std::bit_cast<uint64_t>(PyComplex_RealAsDouble(object)));
    add(std::bit_cast<uint64_t>(PyComplex_ImagAsDouble(object)));
  } else {
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    add(tag(overflow ? kBigInt : kInt, only_types_));
    if (overflow) return add_text(take(PyObject_Repr(object)).get());
    if (!only_types_) add(static_cast<uint64_t>(value));
  }
}

/// Adds the address of an interned copy, which the key keeps alive.
void Key::add_text(PyObject* object) {
  add(tag(kString));
  if (!PyUnicode_CHECK_INTERNED(object)) {
    object = share(object).release();
    PyUnicode_InternInPlace(&object);
    strings_.push_back(Owned<>::steal(object));
  }
  add_held(object);
}

}  // namespace gramme::meta
