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

/// The record of a tensor that says its device and type differently than it is (a fake).
/// Sizes of fakes made in an environment may be symbolic.
const Record* record_of_tensor(const at::Tensor& tensor, c10::Device device, PyTypeObject* type,
                               Environment* environment = nullptr);

/// The device that the fake stands for, or the one that a wrapper wraps.
c10::Device fake_device_of(const at::Tensor& tensor);
/// A new tensor needs gradients as the record says.
void require_gradients(const at::Tensor& tensor, const Record& record);

/// A FakeTensorMode and fakes made in it. One for each fill that is under way, so threads and nested fills never share.
class Fakes {
 public:
  Fakes();
  /// Gives the number that a size that varies is.
  using Numbers = std::function<c10::SymInt(shape::SymInt)>;
  Fakes(Owned<> mode, Numbers numbers) : numbers_(std::move(numbers)), mode_(std::move(mode)) {}
  /// For calls with sizes that vary; one call each.
  explicit Fakes(Environment& environment);
  PyObject* mode() const { return mode_.get(); }
  /// The n-th fake with this record (two tensors of one call need two); kept for later calls that only read it.
  Owned<> fake(const Record* record, size_t n);
  /// The fakes of a record were written to: the next call gets fresh ones.
  void forget(const Record* record) { known_.erase(record); }
  /// The fake of one tensor, which knows what was found of its data (a fake's memo of nonzero()).
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

/// The mode entered, torch functions of subclasses off: a fake passes for a plain tensor.
class EnteredFakes {
 public:
  explicit EnteredFakes(PyObject* mode);
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

/// The thread's modes while calls run on fakes in other ones; put back at the end of the scope.
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
