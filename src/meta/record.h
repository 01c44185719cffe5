// A record: the metadata of a tensor value in a capture, whose sizes may be expressions.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "aten/spec.h"
#include "shape/assumptions.h"
#include "shape/symint.h"

namespace gramme::meta {

using Record = aten::TensorType;

/// The value of a non-symbolic number.
int64_t known(shape::SymInt number);
std::vector<int64_t> known(const std::vector<shape::SymInt>& numbers);
int64_t numel(const Record& record);

/// The level of a tensor whose transform has been left.
constexpr int32_t kNoLevel = -1;

/// True for a tensor whose innermost transform is torch.vmap.
inline bool is_batched(const Record& record) { return record.inner && record.batch_dim >= 0; }

/// The record of the innermost tensor, which owns the memory.
inline const Record* physical(const Record* record) {
  while (record->inner) record = record->inner;
  return record;
}

/// The record of a graph input.
const Record* record_of(PyObject* tensor);
/// The same for a tensor with this known signature.
const Record* record_of(PyObject* tensor, const aten::TensorSpec& spec);
/// The record with expressions for sizes (numbers where `sizes` is null); no size is 0. Strides become expressions over
/// the sizes where possible, so that a contiguous tensor stays contiguous at other sizes; others become new symbols, as
/// does a non-zero offset.
const Record* symbolic_record(const Record* record, const std::vector<shape::Expr>& sizes,
                              shape::Assumptions& assumptions);
/// The record with sizes, strides and offset mapped, also of inner records.
const Record* mapped(const Record* record, const std::function<shape::SymInt(shape::SymInt)>& map);
/// The record with another type, or another geometry.
const Record* with_type(const Record* record, PyTypeObject* type);
const Record* with_geometry(const Record* record, std::vector<shape::SymInt> sizes, std::vector<shape::SymInt> strides,
                            shape::SymInt offset);
/// The record of offsets or lengths that jagged tensors with this number's ragged size refer to.
const Record* with_ragged(const Record* record, int32_t number);
/// The record of a wrapper with these inner records (meta/wrapped.h).
const Record* with_parts(const Record* record, std::vector<const Record*> parts, PyObject* context);
using aten::with_requires_grad;
/// True if they differ at most in requires_grad and is_leaf, inner records included.
bool differ_in_gradients_only(const Record* a, const Record* b);
/// True if a write that changed `before` to `after` set requires_grad, also of an inner record.
bool gains(const Record* before, const Record* after);
/// The record of a view after such a write to its relative: requires gradients at the same levels.
const Record* gained(const Record* view, const Record* before, const Record* after);

// As Python objects (borrowed, immortal for practical purposes): torch.float32, torch.strided, torch.device('cpu').
PyObject* dtype_object(const Record& record);
PyObject* layout_object(const Record& record);
PyObject* device_object(const Record& record);
/// True if the layout is strided; sparse and MKLDNN tensors have no strides.
bool is_strided(const Record& record);
bool is_floating_point(const Record& record);
bool is_complex(const Record& record);

}  // namespace gramme::meta
