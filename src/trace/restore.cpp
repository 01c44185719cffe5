// Inputs written before an operation that may raise on data: if the graph raises, their content is put back, and the
// frame runs plainly from where the segment began.
#include <algorithm>

#include "trace/trace.h"

namespace gramme::trace {

using namespace value;

namespace {

/// Only its content changed, in no way that autograd knows of.
bool can_be_put_back(const Tensor* root) {
  const meta::Record* record = root->record;
  return record == meta::record_of(root->object) && !record->requires_grad && !record->is_inference;
}

}  // namespace

void Trace::expect_raise() {
  for (const Write& write : writes_)
    if (!can_be_put_back(write.root)) cannot(Reason::OperatorMayRaise);
  restored_ = writes_.size();
}

bool Trace::overwrites(const meta::Call& call, const std::vector<Tensor*>& leaves) const {
  static PyObject* const names[] = {intern("copy_"), intern("fill_"), intern("zero_"), intern("index_copy_"),
                                    intern("index_fill_")};
  if (call.kind != meta::Call::Method || leaves.empty()) return false;
  if (std::find(std::begin(names), std::end(names), call.target) == std::end(names)) return false;
  const Tensor* self = leaves[0];
  return self->existing() && self->node->kind == graph::Node::Placeholder && self->node->uses == 0 &&
         std::count(leaves.begin(), leaves.end(), self) == 1;
}

void Trace::note_input_written(Tensor* tensor, bool overwritten) {
  for (Tensor* root = tensor; root; root = root->base) {
    if (!root->existing()) continue;
    auto known = std::find_if(writes_.begin(), writes_.end(), [&](const Write& write) { return write.root == root; });
    if (known == writes_.end())
      writes_.push_back({root, overwritten});
    else
      known->overwritten = false;
  }
}

void Trace::note_raised_write() {
  while (restored_ < writes_.size() && can_be_put_back(writes_[restored_].root)) ++restored_;
}

std::vector<Tensor*> Trace::restored() const {
  std::vector<Tensor*> found;
  for (size_t i = 0; i < restored_; ++i) {
    Tensor* root = writes_[i].root;
    bool shared = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& input) {
      return input.second != root->object && aten::is_tensor(input.second) && aten::overlap(input.second, root->object);
    });
    if (!writes_[i].overwritten || shared) found.push_back(root);
  }
  return found;
}

}  // namespace gramme::trace
