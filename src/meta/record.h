// Metadata of a tensor value during capture: its type, whose sizes may be expressions.
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

/// The value of a number that is not symbolic.
int64_t known(shape::SymInt number);
std::vector<int64_t> known(const std::vector<shape::SymInt>& numbers);
int64_t numel(const Record& record);

/// The level of a tensor whose transform was left.
constexpr int32_t kNoLevel = -1;

/// True for a tensor inside torch.vmap whose innermost transform is that.
inline bool is_batched(const Record& record) { return record.inner && record.batch_dim >= 0; }

/// The innermost tensor: what has the memory.
inline const Record* physical(const Record* record) {
  while (record->inner) record = record->inner;
  return record;
}

/// The record of a graph input.
const Record* record_of(PyObject* tensor);
/// The same of one that just got this signature.
const Record* record_of(PyObject* tensor, const aten::TensorSpec& spec);
/// The same of one whose sizes are expressions where `sizes` has them, and numbers where it has null; none is 0. Its
/// strides are expressions over the sizes as far as they can be, so that another size leaves a contiguous tensor
/// contiguous; else they are new symbols, and so is the offset unless it is 0.
const Record* symbolic_record(const Record* record, const std::vector<shape::Expr>& sizes,
                              shape::Assumptions& assumptions);
/// The same record with other sizes, strides and offset, further in too.
const Record* mapped(const Record* record, const std::function<shape::SymInt(shape::SymInt)>& map);
/// The same record but for its type, or its geometry.
const Record* with_type(const Record* record, PyTypeObject* type);
const Record* with_geometry(const Record* record, std::vector<shape::SymInt> sizes, std::vector<shape::SymInt> strides,
                            shape::SymInt offset);
/// The same record of a wrapper that is made of these (meta/wrapped.h).
const Record* with_parts(const Record* record, std::vector<const Record*> parts, PyObject* context);
using aten::with_requires_grad;
/// True if they differ at most in requires_grad and is_leaf, here and further in.
bool differ_in_gradients_only(const Record* a, const Record* b);
/// True if a write that changed `before` to `after` made a gradient needed, here or further in.
bool gains(const Record* before, const Record* after);
/// The record of a view of what was written: it needs gradients at the levels at which the written one does since.
const Record* gained(const Record* view, const Record* before, const Record* after);

// As Python objects (borrowed, immortal for practical purposes): torch.float32, torch.strided, torch.device('cpu').
PyObject* dtype_object(const Record& record);
PyObject* layout_object(const Record& record);
PyObject* device_object(const Record& record);
/// Sparse tensors and MKLDNN's have no strides here.
bool is_strided(const Record& record);
bool is_floating_point(const Record& record);
bool is_complex(const Record& record);

}  // namespace gramme::meta
