// Caches stack texts by frame and by chain of calls, and module paths by source.
#include "backend/metadata.h"

#include <ATen/SequenceNumber.h>

#include <cstring>
#include <string_view>

#include "base/code_unit.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/targets.h"
#include "torch/names.h"

namespace gramme::backend {
namespace {

using graph::ModuleCall;
using graph::Node;
using graph::Position;
using source::Source;

Owned<> text(std::string_view string) {
  return take(PyUnicode_FromStringAndSize(string.data(), static_cast<Py_ssize_t>(string.size())));
}

/// One frame of a stack trace.
struct FrameText {
  int line = 0;
  Owned<> text;  // empty for frames outside of the program
};

struct State {
  /// GIL: by code and unit. Captured code is kept forever (bytecode::decode).
  std::unordered_map<PyCodeObject*, std::unordered_map<int, FrameText>> frames;

  size_t size() const { return frames.size(); }
};
OfProcess<State> state;

const FrameText& known_frame(PyCodeObject* code, int unit) {
  FrameText& frame = state->frames[code][unit];
  if (frame.text) return frame;
  PyObject* const format = once([] { return imported("gramme._stack", "frame_text").release(); });
  int line = 0, column = -1, end_line = 0, end_column = -1;
  PyCode_Addr2Location(code, unit * kCodeUnit, &line, &column, &end_line, &end_column);
  Owned<> made = take(PyObject_CallFunction(format, "Oiiii", code, line, column, end_line, end_column));
  frame.line = line;
  frame.text = std::move(made);
  return frame;
}

constexpr int kShownRepeats = 3;  // the same as in the traceback module

/// The key in "._modules['key']", "._parameters['key']" or "._buffers['key']" at the start of the text; else empty.
std::string_view member_key(std::string_view text) {
  for (std::string_view table : {"._modules[", "._parameters[", "._buffers["}) {
    if (!text.starts_with(table)) continue;
    text.remove_prefix(table.size());
    size_t end = text.find_first_of("'\"]", 1);
    bool quoted = end != text.npos && end > 1 && (text[0] == '\'' || text[0] == '"') && text[end] == text[0];
    return quoted && text.substr(end + 1).starts_with(']') ? text.substr(1, end - 1) : std::string_view();
  }
  return {};
}

}  // namespace

std::string module_path(const std::string& source) {
  std::string result;
  std::string_view rest = source;
  for (size_t at; (at = rest.find("._")) != rest.npos;) {
    result += rest.substr(0, at + 1);
    rest.remove_prefix(at);
    std::string_view key = member_key(rest);
    result += key;
    rest.remove_prefix(key.empty() ? 1 : static_cast<size_t>(key.data() - rest.data()) + key.size() + 2);
  }
  result += rest;
  return result;
}

namespace {

/// True if operations are attributed to the module's class, as in PyTorch's own modules.
bool is_filed_under(PyTypeObject* type) {
  Owned<> name = Owned<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  const char* utf8 = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!utf8) return PyErr_Clear(), false;
  std::string_view module = utf8;
  return (module.starts_with("torch.nn.modules") && !module.starts_with("torch.nn.modules.container")) ||
         module.starts_with("torch.ao.");
}

}  // namespace

Owned<> frame_text(PyCodeObject* code, int unit) { return known_frame(code, unit).text; }

Owned<> Metadata::Stack::full() const {
  int more = repeats - kShownRepeats;
  if (more <= 0) return text;
  Owned<> remark = take(PyUnicode_FromFormat("  [Previous line repeated %d more time%s]\n", more, more > 1 ? "s" : ""));
  return take(PyUnicode_Concat(text.get(), remark.get()));
}

Metadata::Stack Metadata::below(const Stack& outer, const Position& position) {
  const FrameText& frame = known_frame(position.code, position.unit);
  if (PyUnicode_GET_LENGTH(frame.text.get()) == 0) return outer;
  bool again = outer.code == position.code && outer.line == frame.line;
  Stack made;
  made.code = position.code;
  made.line = frame.line;
  made.repeats = again ? outer.repeats + 1 : 1;
  made.text = again ? outer.text : outer.full();
  if (made.repeats <= kShownRepeats) made.text = take(PyUnicode_Concat(made.text.get(), frame.text.get()));
  return made;
}

/// The stack of a calling frame, in which many consecutive nodes are made.
const Metadata::Stack& Metadata::stack(const Position* caller) {
  if (caller == last_caller_ && last_stack_) return *last_stack_;
  auto known = stacks_.find(caller);
  if (known == stacks_.end()) {
    Stack made;
    if (caller)
      made = below(stack(caller->caller), *caller);
    else
      made.text = take(PyUnicode_New(0, 0));
    known = stacks_.emplace(caller, std::move(made)).first;
  }
  last_caller_ = caller;
  last_stack_ = &known->second;
  return known->second;
}

/// A module's path. Mostly the module is a member of one whose path is known.
const std::string& Metadata::path(const Source* source) {
  auto [known, added] = paths_.try_emplace(source);
  std::string& result = known->second;
  if (!added) return result;
  const Source* table = source->base;
  bool member = source->kind == source::Kind::Value && table->kind == source::Kind::Attr &&
                PyUnicode_CompareWithASCIIString(table->key.get(), of_torch::text(of_torch::Submodules)) == 0;
  const char* key = member && PyUnicode_Check(source->key.get()) ? PyUnicode_AsUTF8(source->key.get()) : nullptr;
  PyErr_Clear();  // lone surrogates
  if (key && *key && !strpbrk(key, "'\"]"))
    result = path(table->base) + "." + key;
  else
    result = module_path(source->print());
  return result;
}

const Metadata::Modules& Metadata::modules(const ModuleCall* call) {
  if (call == last_call_) return *last_modules_;
  if (auto known = modules_.find(call); known != modules_.end()) {
    last_call_ = call;
    return *(last_modules_ = &known->second);
  }
  Modules made;
  made.stack = take(call->caller ? PyDict_Copy(modules(call->caller).stack.get()) : PyDict_New());
  std::string key = std::to_string(call->identity);
  if (call->earlier) key += "@" + std::to_string(call->earlier);
  auto* cls = reinterpret_cast<PyObject*>(call->type);
  Owned<> entry = take(PyTuple_Pack(2, text(path(call->path)).get(), cls));
  check(PyDict_SetItem(made.stack.get(), text(key).get(), entry.get()));
  if (is_filed_under(call->type)) made.source_class = share(cls);
  return modules_.emplace(call, std::move(made)).first->second;
}

/// [(name, target)], after the entries of the operators around.
Owned<> Metadata::source(Owned<> name, PyObject* called) const {
  Owned<> list = around_ ? take(PySequence_List(around_.get())) : take(PyList_New(0));
  check(PyList_Append(list.get(), take(PyTuple_Pack(2, name.get(), called)).get()));
  return list;
}

Owned<> Metadata::inside(PyObject* op) const {
  Owned<> name = Owned<>::steal(PyObject_GetAttrString(op, "__name__"));
  if (!name) PyErr_Clear(), name = take(PyObject_Str(op));
  return source(std::move(name), op);
}

void annotate(const Owned<>& fx_node, PyObject* custom) {
  const auto before = static_cast<long long>(at::sequence_number::peek()) - 1;  // of the thread's autograd nodes
  Owned<> meta = take(PyObject_GetAttrString(fx_node.get(), "meta"));
  check(PyDict_SetItemString(meta.get(), "custom", take(PyDict_Copy(custom)).get()));
  check(PyDict_SetItemString(meta.get(), "seq_nr", take(PyLong_FromLongLong(before)).get()));
}

void Metadata::describe(const Node& node, const Owned<>& fx_node, const std::string& name) {
  static PyObject* const k_meta = intern("meta");
  static PyObject* const k_modules = intern("nn_module_stack");
  static PyObject* const k_source = intern("source_fn_stack");
  static PyObject* const k_stack = intern("stack_trace");
  const Position* position = node.position;
  // In PyTorch's front end too, nodes that set modes have none.
  if (!position || (node.kind == Node::CallFunction && meta::sets_state(node.call.target))) return;
  Owned<> meta = take(PyObject_GetAttr(fx_node.get(), k_meta));
  PyObject* called = node.call.target;
  if (node.module) {
    const Modules& module = modules(node.module);
    if (module.source_class) called = module.source_class.get();
    check(PyDict_SetItem(meta.get(), k_modules, take(PyDict_Copy(module.stack.get())).get()));
  }
  if (node.kind == Node::CallFunction || node.kind == Node::CallMethod)
    check(PyDict_SetItem(meta.get(), k_source, source(text(name), called).get()));
  if (position != last_position_) {
    last_text_ = below(stack(position->caller), *position).full();
    last_position_ = position;
  }
  check(PyDict_SetItem(meta.get(), k_stack, last_text_.get()));
  if (node.custom) annotate(fx_node, node.custom);
}

}  // namespace gramme::backend
