// Counts operators in a thread-local callback of at::RecordFunction. Threads of autograd find the counts of the thread
// that called backward() through c10::ThreadLocalDebugInfo.
#include "aten/dispatched.h"

#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <string_view>
#include <utility>

namespace gramme::aten {
namespace {

/// The counts of one thread. Autograd's threads write to them too.
struct Counts : c10::DebugInfoBase {
  std::atomic<uint64_t> inside{0}, outside{0}, backward{0}, on_fakes{0};
};

struct Thread {
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  at::CallbackHandle handle = 0;
  int counting = 0;   // CountsDispatched objects
  int depth = 0;      // operators under way
  int uncounted = 0;  // Uncounted objects
  int graphs = 0;     // InGraph objects
};

Thread& thread() {
  thread_local Thread state;
  return state;
}

constexpr std::string_view kKindName = "GRAMME_DISPATCHED";
const c10::DebugInfoKind kKind(&kKindName);

/// Where this thread counts: a thread of autograd counts for the thread that called backward().
Counts& counts_of(const Thread& state) {
  if (state.counting) return *state.counts;
  auto* known = static_cast<Counts*>(c10::ThreadLocalDebugInfo::get(kKind));
  return known ? *known : *state.counts;
}

bool computes_without_data() {
  using c10::impl::TorchDispatchModeKey;
  using c10::impl::TorchDispatchModeTLS;
  if (!TorchDispatchModeTLS::any_modes_set()) return false;
  for (TorchDispatchModeKey key :
       {TorchDispatchModeKey::FAKE, TorchDispatchModeKey::PROXY, TorchDispatchModeKey::FUNCTIONAL})
    if (TorchDispatchModeTLS::get_mode(key).has_value()) return true;
  return false;
}

/// RecordFunction also reports the forward() of a torch.autograd.Function, which is no operator.
bool is_operator(const at::RecordFunction& function) { return function.operator_name().has_value(); }

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  Thread& state = thread();
  if (!is_operator(function) || state.depth++ > 0) return nullptr;
  Counts& counts = counts_of(state);
  if (computes_without_data())
    ++counts.on_fakes;
  else if (state.uncounted)
    return nullptr;
  else if (torch::autograd::get_current_node())
    ++counts.backward;
  else
    ++(state.graphs ? counts.inside : counts.outside);
  return nullptr;
}

/// The depth may be 0 already: counting may have begun in the middle of an operator.
void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  Thread& state = thread();
  if (state.depth > 0 && is_operator(function)) --state.depth;
}

}  // namespace

CountsDispatched::CountsDispatched() {
  Thread& state = thread();
  if (state.counting++ > 0) return;
  state.depth = 0;
  state.handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end).scopes({at::RecordScope::FUNCTION}));
}

CountsDispatched::~CountsDispatched() {
  Thread& state = thread();
  if (--state.counting == 0) at::removeCallback(state.handle);
}

Dispatched dispatched() {
  const Counts& counts = *thread().counts;
  return {counts.inside, counts.outside, counts.backward, counts.on_fakes};
}

struct FollowsBackward::Guard {
  c10::DebugInfoGuard guard{kKind, thread().counts};
};

FollowsBackward::FollowsBackward() : guard_(std::make_unique<Guard>()) {}
FollowsBackward::~FollowsBackward() = default;

Uncounted::Uncounted() { ++thread().uncounted; }
Uncounted::~Uncounted() { --thread().uncounted; }

InGraph::InGraph() { ++thread().graphs; }
InGraph::~InGraph() { --thread().graphs; }

OnFakes::OnFakes() : depth_(std::exchange(thread().depth, 0)), before_(thread().counts->on_fakes) {}
OnFakes::~OnFakes() { thread().depth = depth_; }
uint64_t OnFakes::count() const { return thread().counts->on_fakes - before_; }

}  // namespace gramme::aten
