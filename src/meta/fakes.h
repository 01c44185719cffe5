// Fake tensors for records. Only meta's own sources include this (torch headers).
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "aten/state.h"
#include "base/ref.h"
#include "meta/environment.h"
#include "meta/record.h"

namespace gramme::meta {

/// The record of a tensor that stands for one of another device and type (a fake). Sizes of fakes made in an
/// environment may be symbolic.
const Record* record_of_tensor(const at::Tensor& tensor, c10::Device device, PyTypeObject* type,
                               Environment* environment = nullptr);

/// The device that a fake, or what a wrapper wraps, stands for.
c10::Device fake_device_of(const at::Tensor& tensor);
/// Sets requires_grad of a new tensor as in the record.
void require_gradients(const at::Tensor& tensor, const Record& record);

/// A FakeTensorMode with fakes made in it. Each running fill has its own, so threads and nested fills never share.
class Fakes {
 public:
  Fakes();
  /// Returns the number for a varying size.
  using Numbers = std::function<c10::SymInt(shape::SymInt)>;
  Fakes(Owned<> mode, Numbers numbers) : numbers_(std::move(numbers)), mode_(std::move(mode)) {}
  /// For one call with varying sizes.
  explicit Fakes(Environment& environment);
  PyObject* mode() const { return mode_.get(); }
  /// The n-th fake with this record (two tensors of one call need two); kept for later calls that only read it.
  Owned<> fake(const Record* record, size_t n);
  /// Call when a record's fakes were written: the next call gets new ones.
  void forget(const Record* record) { known_.erase(record); }
  /// The fake of one particular tensor, which keeps facts about its data (a fake's memo of nonzero()).
  Owned<> fake_of(const void* tensor, const Record* record);
  void forget_all() { of_tensors_.clear(); }

 private:
  Owned<> make(const Record& record) const;
  Owned<> make_wrapper(const Record& record) const;

  Numbers numbers_;
  Owned<> mode_;
  std::unordered_map<const Record*, std::vector<Owned<>>> known_;
  std::unordered_map<const void*, std::pair<const Record*, Owned<>>> of_tensors_;
};

/// Scope with the mode entered and __torch_function__ off, so that fakes pass for plain tensors. With `asks` it stays
/// on: a jagged tensor's class answers some functions there.
class EnteredFakes {
 public:
  explicit EnteredFakes(PyObject* mode, bool asks = false);
  ~EnteredFakes();
  EnteredFakes(const EnteredFakes&) = delete;

 private:
  PyObject* mode_;
  at::impl::TorchFunctionDisabledState functions_;
};

/// Borrows a Fakes from the pool for one fill.
class BorrowedFakes {
 public:
  BorrowedFakes();
  ~BorrowedFakes();
  BorrowedFakes(const BorrowedFakes&) = delete;
  BorrowedFakes& operator=(const BorrowedFakes&) = delete;
  Fakes& operator*() const { return *fakes_; }

 private:
  Fakes* fakes_;
};

/// Scope that restores the thread's modes after calls on fakes in other modes.
class KeptModes {
 public:
  KeptModes() { modes_.save(); }
  ~KeptModes() {
    ErrorState pending;
    modes_.restore();
  }
  KeptModes(const KeptModes&) = delete;

 private:
  aten::SavedModes modes_;
};

}  // namespace gramme::meta
