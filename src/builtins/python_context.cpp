// contextvars: what the context held is guarded, what the program sets is set in replay, where the tokens are made.
#include "builtins/python_support.h"

namespace gramme::builtins {

using namespace value;
using SK = source::Kind;

namespace {

Object* variable_argument(Trace& trace, Value* self) {
  auto* variable = trace.see_as<Object>(self);
  if (!variable || !variable->existing() || !PyContextVar_CheckExact(variable->object))
    cannot(Reason::ArgumentKind, "a context variable made in the capture");
  return variable;
}

/// What this context holds, or null.
Value* held(Trace& trace, Object* variable) {
  static PyObject* const missing = take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
  PyObject* now = nullptr;
  check(PyContextVar_Get(variable->object, missing, &now));
  Owned<> owned = Owned<>::steal(now);
  const source::Source* source = trace.pool->child(variable->source, SK::ContextValue, int64_t{0});
  if (now != missing) return trace.wrap(now, source);
  trace.guard_absent(source);
  return nullptr;
}

/// variable.get(default): the default of the call, then of the variable, where the context has none.
Value* get(Trace& trace, const Args& args) {
  auto [self, fallback] = positional<2>(args, 1);
  Object* variable = variable_argument(trace, self);
  if (auto set = trace.variables.find(variable); set != trace.variables.end()) return set->second;
  if (Value* value = held(trace, variable)) return value;
  if (fallback) return fallback;
  PyObject* own = nullptr;
  check(PyContextVar_Get(variable->object, nullptr, &own));
  Owned<> owned = Owned<>::steal(own);
  if (own) return trace.wrap(own, trace.pool->child(variable->source, SK::ContextValue, int64_t{1}));
  trace.guard_absent(trace.pool->child(variable->source, SK::ContextValue, int64_t{1}));
  Value* missing[] = {variable};
  throw UserError{protocol::call(trace, trace.pinned(PyExc_LookupError), Args{missing, 1, nullptr, 0})};
}

struct Set {
  Object* variable;
  Value* before;  // what the capture had set; null if it was what the context held
  bool used;
};
/// By the token. A token of another capture is left to the real call, which knows whether it is still good.
thread_local std::unordered_map<const Value*, Set> set_by;

Value* set(Trace& trace, const Args& args) {
  static PyObject* const method = real("_contextvars", "ContextVar.set");
  static auto* const token_type = reinterpret_cast<PyTypeObject*>(real("_contextvars", "Token"));
  auto [self, value] = positional<2>(args, 2);
  Object* variable = variable_argument(trace, self);
  auto* token = trace.make<Object>();
  token->type = token_type;
  auto [now, added] = trace.variables.try_emplace(variable, nullptr);
  set_by[token] = {variable, added ? nullptr : now->second, false};
  trace.undo.push_back([token] { set_by.erase(token); });
  now->second = value;
  variable->written = true;
  trace.effects.add_call(method, {variable, value}, trace.graph.length(), token);
  return token;
}

Value* reset(Trace& trace, const Args& args) {
  static PyObject* const method = real("_contextvars", "ContextVar.reset");
  auto [self, token] = positional<2>(args, 2);
  Object* variable = variable_argument(trace, self);
  auto made = set_by.find(trace.see(token));
  if (made == set_by.end() || made->second.variable != variable || made->second.used)
    cannot(Reason::CallUnknown, "ContextVar.reset with a token made before");
  made->second.used = true;
  if (made->second.before)
    trace.variables[variable] = made->second.before;
  else
    trace.variables.erase(variable);
  trace.effects.add_call(method, {variable, token}, trace.graph.length());
  return trace.none();
}

}  // namespace

void register_context() {
  add_rows("_contextvars", {{"ContextVar.get", &get}, {"ContextVar.set", &set}, {"ContextVar.reset", &reset}});
}

}  // namespace gramme::builtins
