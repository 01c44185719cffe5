// The backward of a run on local tensors: a node in the place of autograd's graph of distributed tensors.
//
//   call 1        the run through DTensor's dispatch, observed. Its graph is behind the node, which lets the engine run
//                 that graph, and observes what it calls below the dispatch
//   calls after   a tape, which keeps what the backward's tape reads and what came of collectives; the node runs the
//                 backward's tape
//
// A backward without a tape needs autograd's graph: for create_graph, other gradients, hooks of leaves. Then the node
// grafts it (graft.h). If there is none the steps run again through the dispatch, where the results that were kept are
// served in place of calls (gramme/_served.py): no process communicates a second time.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <span>
#include <vector>

#include "native/local_run.h"

namespace gramme::native {

/// True if hooks at a leaf would see when gradients arrive.
bool is_listened_to(const torch::autograd::Edge& edge);

/// Hangs the output of a call through the dispatch in front of its graph; returns the program's tensor. Throws
/// PythonError.
Owned<> hang(std::shared_ptr<LocalRun> run, std::shared_ptr<LocalCalls> calls, torch::autograd::edge_list edges,
             PyObject* output);
/// The same for a call by tape, which `made` output and what is kept.
Owned<> hang(std::shared_ptr<LocalRun> run, std::shared_ptr<const LocalPlan> plan, torch::autograd::edge_list edges,
             std::span<PyObject* const> inputs, const std::vector<at::Tensor>& locals, std::vector<at::Tensor> made);

}  // namespace gramme::native
