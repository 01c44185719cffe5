// Finding the inner tensors of operands (by tracing __tensor_flatten__ at first use), tracking those of results, and
// writes to them.
#include "trace/wrappers.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/ragged.h"
#include "meta/wrapped.h"
#include "trace/trace.h"

namespace gramme::trace {

using namespace value;

namespace {

AtLoad<OpenWrapper> open_wrapper;

/// Refuses wrappers with changed attributes: the graph runs before replay stores those.
void refuse_changed(const Tensor* wrapper, const Wrappers& wrappers, const effects::WriteLedger& writes) {
  const auto changed = [&](const Tensor* tensor) {
    return !tensor->attributes.empty() || writes.late(tensor) == effects::Late::Closed;
  };
  bool found = changed(wrapper);
  wrappers.each_known(wrapper, [&](const Tensor* part) { found |= changed(part); });
  if (found)
    cannot(Reason::LateEffect,
           std::string("an operation on a ") + wrapper->record->type->tp_name + " whose attributes were set");
}

/// False if the inner tensors were known before.
bool open(Trace& trace, Tensor* wrapper) {
  if (wrapper->record->context) return false;
  if (!wrapper->existing()) GRAMME_BUG("a wrapper of which nobody knows what it wraps");
  (*open_wrapper)(trace, wrapper);
  trace.scope().node(wrapper);
  trace.scope().state<Wrappers>().inputs[wrapper->node] = wrapper;
  return true;
}

}  // namespace

void set_open_wrapper(OpenWrapper open) { open_wrapper.fill() = open; }

std::vector<shape::SymInt> sizes_of_jagged(Trace& trace, Tensor* tensor) {
  open(trace, tensor);
  std::vector<shape::SymInt> sizes = meta::sizes_of_jagged(*tensor->record);
  if (sizes.empty()) cannot(Reason::TensorSubclass, "sizes of a jagged tensor that its parts do not tell");
  return sizes;
}

void open_operand(Trace& trace, Tensor* tensor) {
  if (!meta::is_wrapper(tensor->record->type)) return;
  if (tensor->record->opaque) cannot(Reason::TensorSubclass, "a jagged tensor in an operator that takes functions");
  open(trace, tensor);
  refuse_changed(tensor, trace.scope().state<Wrappers>(), trace.scope().writes());
}

Wrappers::Part& Wrappers::find(const Tensor* wrapper, size_t place) {
  std::vector<Part>& own = parts[wrapper];
  if (own.empty()) own.resize(wrapper->record->parts.size());
  Part& part = own.at(place);
  return !part.tensor && part.of ? find(part.of, part.place) : part;
}

bool Scope::open_wrappers() {
  bool opened = false;
  for (Tensor* leaf : std::vector<Tensor*>(building_.leaves)) {
    if (!meta::is_wrapper(leaf->record->type)) continue;
    opened |= open(static_cast<Trace&>(capture_), leaf);
    refuse_changed(leaf, state<Wrappers>(), writes_);
  }
  return opened;
}

void Scope::fill_opening(meta::Call& call, const Args& args) {
  building_.opens = true;
  const auto closed = std::unique_ptr<bool, void (*)(bool*)>(&building_.opens, [](bool* opens) { *opens = false; });
  fill(call, args);
  building_.opens = false;
  if (has_classes_ && open_wrappers()) fill(call, args);
}

void Scope::refuse_remade(const Tensor* wrapper, const meta::Record& after) {
  const meta::Record& before = *wrapper->record;
  if (wrapper->existing() && (before.context != after.context || before.parts != after.parts))
    cannot(Reason::TensorSubclass, std::string("a change of what a ") + before.type->tp_name + " is made of");
}

Tensor* Scope::part(Tensor* wrapper, size_t place) {
  if (Tensor* known = state<Wrappers>().find(wrapper, place).tensor) return known;
  PyObject* const getattr = once([] { return imported("builtins", "getattr").release(); });
  PyObject* name = PyTuple_GET_ITEM(meta::part_names(*wrapper->record), static_cast<Py_ssize_t>(place));
  Value* operands[] = {wrapper, capture_.constant(name)};
  const HandlersOff off(modes_);
  auto* made = as<Tensor>(capture_.see(emit(getattr, Args{operands, 2, nullptr, 0})));
  if (!made) cannot(Reason::TensorSubclass, "an inner tensor that is none");
  state<Wrappers>().find(wrapper, place).tensor = made;
  return made;
}

Tensor* Scope::known_part(const meta::Result::Part& part, const std::vector<Tensor*>& leaves) {
  if (part.leaf < 0) return nullptr;
  Tensor* leaf = leaves.at(part.leaf);
  return part.place < 0 ? leaf : state<Wrappers>().find(leaf, static_cast<size_t>(part.place)).tensor;
}

void Scope::note_wrapper(Tensor* made, const meta::Result& result, const std::vector<Tensor*>& leaves) {
  note_class(made->record->type);
  auto& wrappers = state<Wrappers>();
  wrappers.likenesses[made] = capture_.keep(share(result.object.get()));
  std::vector<Wrappers::Part>& parts = wrappers.parts[made];
  for (const meta::Result::Part& part : result.parts) {
    Wrappers::Part& known = parts.emplace_back();
    known.tensor = known_part(part, leaves);
    if (known.tensor || part.leaf < 0) continue;
    known.of = leaves.at(part.leaf);
    known.place = static_cast<size_t>(part.place);
  }
}

/// A write to a wrapper also writes its inner tensors.
void Scope::note_parts_written(Tensor* wrapper, const graph::Node* node) {
  auto& wrappers = state<Wrappers>();
  for (Tensor* root = wrapper; root; root = root->base) {
    if (!root->record->context) continue;
    std::vector<Tensor*> parts;
    wrappers.each_known(root, [&](Tensor* part) { parts.push_back(part); });
    for (Tensor* part : parts) {
      note_written(part, part->record);
      note_input_written(part, node, false);
    }
  }
}

std::vector<Memory> Scope::memory() const {
  std::vector<Memory> all;
  const auto& wrappers = state<Wrappers>();
  for (const graph::Node* input : root_.placeholders()) {
    if (!input->record) continue;
    const auto wrapper = wrappers.inputs.find(input);
    if (wrapper == wrappers.inputs.end()) {
      all.push_back({input, input->source, inputs_.object(input)});
      continue;
    }
    wrappers.each_known(wrapper->second, [&](const Tensor* part) {
      if (!part->record->context && part->existing()) all.push_back({input, part->source, part->object});
    });
  }
  return all;
}

bool Scope::has_wrappers() const { return has_classes_ && !state<Wrappers>().parts.empty(); }

}  // namespace gramme::trace
