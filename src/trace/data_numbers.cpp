// A ShapeEnv is made late: most captures have no data-dependent sizes.
#include "trace/data_numbers.h"

namespace gramme::trace {

const DataNumbers::Answer& DataNumbers::infer(const meta::Call& call) {
  if (!unbacked_) {
    unbacked_ = std::make_unique<meta::Unbacked>(assumptions_, allowed_);
    for (const shape::Expr condition : assumed_before_) unbacked_->assume(condition);
  }
  return answer_ = unbacked_->infer(call);
}

void DataNumbers::assume(shape::Expr condition) {
  if (unbacked_)
    unbacked_->assume(condition);
  else
    assumed_before_.push_back(condition);
}

value::Tensor* DataNumbers::tensor_of(const graph::Node* number) const {
  const auto known = tensors_.find(number);
  return known == tensors_.end() ? nullptr : known->second;
}

value::Tensor* DataNumbers::item_of(const graph::Node* number, size_t writes) const {
  const auto found = items_.find(number);
  return found == items_.end() || found->second.writes != writes ? nullptr : found->second.tensor;
}

}  // namespace gramme::trace
