// The list of settings that captures read, and the numbering of their values.
#include "api/terms.h"

#include <algorithm>
#include <vector>

#include "base/imported.h"
#include "base/process.h"
#include "torch/option.h"

namespace gramme::api {
namespace {

/// All settings that captures read. Guards check none of them.
constinit Option read[] = {
    {of_torch::DynamoConfig, "allow_rnn"},
    {of_torch::DynamoConfig, "allow_unspec_int_on_nn_module"},
    {of_torch::DynamoConfig, "assume_static_by_default"},
    {of_torch::DynamoConfig, "automatic_dynamic_shapes"},
    {of_torch::DynamoConfig, "capture_dynamic_output_shape_ops"},
    {of_torch::DynamoConfig, "capture_scalar_outputs"},
    {of_torch::DynamoConfig, "ignore_logging_functions"},
    {of_torch::DynamoConfig, "only_allow_pt2_compliant_ops"},
    {of_torch::DynamoConfig, "reorderable_logging_functions"},
    {of_torch::DynamoConfig, "side_effect_replay_policy"},
    {of_torch::DynamoConfig, "skip_fwd_side_effects_in_bwd_under_checkpoint"},
    {of_torch::DynamoConfig, "specialize_int"},
    {of_torch::DynamoConfig, "use_graph_deduplication"},
    {of_torch::CompilerConfig, "dynamic_sources"},
    {of_torch::CompilerConfig, "dynamic_values"},
    {of_torch::CompilerConfig, "static_sources"},
    {of_torch::CompilerConfig, "unbacked_sources"},
};

using Values = std::vector<Owned<>>;

/// Copies values that the program may change in place.
Owned<> kept(Owned<> value) {
  if (value && PyAnySet_Check(value.get())) return take(PyFrozenSet_New(value.get()));
  if (value && PyList_Check(value.get())) return take(PyList_AsTuple(value.get()));
  return value;
}

bool is_same(const Owned<>& a, const Owned<>& b) {
  if (a == b || !a || !b || Py_TYPE(a.get()) != Py_TYPE(b.get())) return a == b;
  return check(PyObject_RichCompareBool(a.get(), b.get(), Py_EQ));
}

bool are_same(const Values& a, const Values& b) { return std::ranges::equal(a, b, is_same); }

/// Numbers for the latest combinations of settings. Whoever has one may compare it later.
class Known {
 public:
  uint64_t number_of(Values now) {
    for (size_t i = rows_.size(); i-- > 0;)
      if (const Values row = rows_[i]; are_same(row, now)) return first_ + i;
    if (rows_.size() == kMost) rows_.erase(rows_.begin()), ++first_;
    rows_.push_back(std::move(now));
    return first_ + rows_.size() - 1;
  }

 private:
  static constexpr size_t kMost = 64;
  std::vector<Values> rows_;  // GIL
  uint64_t first_ = 1;        // GIL: number of the first row
};
Lasting<Known> known;

}  // namespace

Settings settings_now(bool of_compilers) {
  Values now;
  now.reserve(std::size(read) + 1);
  for (Option& option : read) now.push_back(kept(option.changed()));
  Settings settings;
  settings.of_captures = settings.all = known->number_of(now);
  if (!of_compilers) return settings;
  now.push_back(take(PyObject_CallNoArgs(imported("gramme._terms", "settings").get())));
  settings.all = known->number_of(std::move(now));
  return settings;
}

}  // namespace gramme::api
