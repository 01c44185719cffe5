#include "graph/asked.h"

namespace gramme::graph {

namespace {
bool on = false;
std::vector<Asked> noted;
PyObject* called_now = nullptr;
const Position* called_at = nullptr;
}  // namespace

void note_asked(bool wanted) { on = wanted; }
bool notes_asked() { return on; }
std::vector<Asked> take_asked() { return std::exchange(noted, {}); }

void note(const Node* node) {
  if (!node->position) return;
  PyObject* called = called_at == node->position ? called_now : nullptr;
  noted.push_back({share(called), share(reinterpret_cast<PyObject*>(node->position->code)), node->position->unit,
                   node->kind == Node::CallMethod, share(node->call.target)});
}

Asking::Asking(PyObject* called, const Position* position) : called_(called_now), position_(called_at) {
  if (position && position == called_at) return;
  called_now = called;
  called_at = position;
}

Asking::~Asking() {
  called_now = called_;
  called_at = position_;
}

}  // namespace gramme::graph
