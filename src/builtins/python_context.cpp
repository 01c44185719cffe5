// contextvars. Values that the context held are guarded; variables that the program sets are set in replay, which also
// makes the tokens. A copied context overlays the thread's own with what the program set in it; it cannot leave the
// capture.
#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"

namespace gramme::builtins {

using namespace value;
using SK = source::Kind;

namespace {

using Variables = std::unordered_map<Value*, Value*>;

struct Set {
  Object* variable;
  Value* before;  // value set by the capture before; null if the context's own
  const Value* context;
  bool used;
};

/// State of the capture: its contexts.
struct Contexts {
  Variables variables;  // set by the capture in the present context
  /// By token. An existing token is added when it is used.
  std::unordered_map<const Value*, Set> set_by;
  std::unordered_map<const Value*, Variables> copied;
  const Value* running = nullptr;  // the copied context being run; null: the thread's own
};

Object* variable_argument(Trace& trace, Value* self) {
  auto* variable = trace.see_as<Object>(self);
  if (!variable || !variable->existing() || !PyContextVar_CheckExact(variable->object))
    cannot(Reason::ArgumentKind, "a context variable made in the capture");
  return variable;
}

/// The variable's value in the present context, or null.
Value* held(Trace& trace, Object* variable) {
  PyObject* const missing =
      once([] { return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release(); });
  PyObject* now = nullptr;
  check(PyContextVar_Get(variable->object, missing, &now));
  Owned<> owned = Owned<>::steal(now);
  const source::Source* source = trace.pool->child(variable->source, SK::ContextValue, int64_t{0});
  if (now != missing) return trace.wrap(now, source);
  trace.facts.add_absent(source);
  return nullptr;
}

Value* content_of(Trace& trace, const Variables& variables, Object* variable) {
  auto set = variables.find(variable);
  return set != variables.end() ? set->second : held(trace, variable);
}

/// variable.get(default): the context's value, else the call's default, else the variable's.
Value* get(Trace& trace, const Args& args) {
  auto [self, fallback] = positional<2>(args, 1);
  Object* variable = variable_argument(trace, self);
  if (Value* value = content_of(trace, trace.state<Contexts>().variables, variable)) return value;
  if (fallback) return fallback;
  PyObject* own = nullptr;
  check(PyContextVar_Get(variable->object, nullptr, &own));
  Owned<> owned = Owned<>::steal(own);
  if (own) return trace.wrap(own, trace.pool->child(variable->source, SK::ContextValue, int64_t{1}));
  trace.facts.add_absent(trace.pool->child(variable->source, SK::ContextValue, int64_t{1}));
  Value* missing[] = {variable};
  throw UserError{protocol::call(trace, trace.pinned(PyExc_LookupError), Args{missing, 1, nullptr, 0})};
}

Value* set(Trace& trace, const Args& args) {
  auto& contexts = trace.state<Contexts>();
  PyObject* const method = once([] { return real("_contextvars", "ContextVar.set"); });
  auto* const token_type = once([] { return reinterpret_cast<PyTypeObject*>(real("_contextvars", "Token")); });
  auto [self, value] = positional<2>(args, 2);
  Object* variable = variable_argument(trace, self);
  auto* token = trace.make<Object>();
  token->type = token_type;
  auto [now, added] = contexts.variables.try_emplace(variable, nullptr);
  contexts.set_by[token] = {variable, added ? nullptr : now->second, contexts.running, false};
  now->second = value;
  if (contexts.running) return token;
  variable->written = true;
  trace.call_in_replay(method, {variable, value}, token);
  return token;
}

/// Checks and guards an existing token, which is valid for one reset.
void note_token(Trace& trace, Object* variable, Object* token) {
  auto& contexts = trace.state<Contexts>();
  auto part = [&](int64_t which) { return trace.pool->child(token->source, SK::TokenPart, which); };
  Value* own = trace.see(trace.wrap(cpython::token_part(token->object, 0), part(0)));
  PyObject* before = cpython::token_part(token->object, 1);
  if (own != variable || !before || !cpython::token_part(token->object, 2)) return;
  for (int64_t which : {1, 2}) trace.facts.add({part(which), guards::Kind::Present, {}});
  token->written = true;
  contexts.set_by[token] = {variable, trace.wrap(before, part(1)), nullptr, false};
}

Value* reset(Trace& trace, const Args& args) {
  auto& contexts = trace.state<Contexts>();
  PyObject* const method = once([] { return real("_contextvars", "ContextVar.reset"); });
  auto [self, token] = positional<2>(args, 2);
  Object* variable = variable_argument(trace, self);
  auto* known = trace.see_as<Object>(token);
  bool existing = known && known->existing() && PyContextToken_CheckExact(known->object);
  if (existing && !contexts.set_by.contains(known)) note_token(trace, variable, known);
  auto made = contexts.set_by.find(trace.see(token));
  if (made == contexts.set_by.end() || made->second.variable != variable || made->second.used ||
      made->second.context != contexts.running)
    cannot(Reason::CallUnknown, "ContextVar.reset with a token created before the capture or elsewhere");
  made->second.used = true;
  variable->written = true;
  if (made->second.before)
    contexts.variables[variable] = made->second.before;
  else
    contexts.variables.erase(variable);
  if (!contexts.running) trace.call_in_replay(method, {variable, token});
  return trace.none();
}

// ---- copied contexts

Value* copy_context(Trace& trace, const Args& args) {
  auto& contexts = trace.state<Contexts>();
  auto* const context_type = once([] { return reinterpret_cast<PyTypeObject*>(real("_contextvars", "Context")); });
  positional<0>(args, 0);
  auto* context = trace.make<Object>();
  context->type = context_type;
  contexts.copied[context] = contexts.variables;
  return context;
}

const Value* copied_argument(Trace& trace, Value* self) {
  auto& contexts = trace.state<Contexts>();
  const Value* context = trace.see(self);
  if (!contexts.copied.contains(context)) cannot(Reason::ArgumentKind, "a context created before the capture");
  return context;
}

/// Scope in which a copied context is the present one.
class Inside {
 public:
  Inside(Contexts& contexts, const Value* context) : contexts_(contexts), context_(context), outer_(contexts.running) {
    contexts_.variables.swap(contexts_.copied[context_]);
    contexts_.running = context_;
  }
  ~Inside() {
    contexts_.running = outer_;
    contexts_.variables.swap(contexts_.copied[context_]);
  }
  Inside(const Inside&) = delete;

 private:
  Contexts& contexts_;
  const Value *context_, *outer_;
};

Value* run(Trace& trace, const Args& args) {
  auto& contexts = trace.state<Contexts>();
  if (args.positional < 2) cannot(Reason::ArgumentKind, "Context.run without a function");
  const Value* context = copied_argument(trace, args[0]);
  if (contexts.running) cannot(Reason::CallUnknown, "Context.run in a copied context");
  Inside inside(contexts, context);
  return protocol::call(trace, args[1], rest(args, 2));
}

Value* found_in_copy(Trace& trace, Value* self, Value* variable) {
  auto& contexts = trace.state<Contexts>();
  const Value* context = copied_argument(trace, self);
  if (context == contexts.running) return content_of(trace, contexts.variables, variable_argument(trace, variable));
  return content_of(trace, contexts.copied[context], variable_argument(trace, variable));
}

Value* item_of_copy(Trace& trace, const Args& args) {
  auto [self, variable] = positional<2>(args, 2);
  if (Value* value = found_in_copy(trace, self, variable)) return value;
  raise_key_error(trace, variable);
}

Value* get_of_copy(Trace& trace, const Args& args) {
  auto [self, variable, fallback] = positional<3>(args, 2);
  if (Value* value = found_in_copy(trace, self, variable)) return value;
  return fallback ? fallback : trace.none();
}

Value* is_in_copy(Trace& trace, const Args& args) {
  auto [self, variable] = positional<2>(args, 2);
  return trace.boolean(found_in_copy(trace, self, variable) != nullptr);
}

}  // namespace

void register_context() {
  add_rows("_contextvars", Takes::Asked,
           {{"ContextVar.get", &get},
            {"ContextVar.set", &set},
            {"ContextVar.reset", &reset},
            {"copy_context", &copy_context},
            {"Context.run", &run},
            {"Context.get", &get_of_copy},
            {"Context.__getitem__", &item_of_copy},
            {"Context.__contains__", &is_in_copy}});
}

}  // namespace gramme::builtins
