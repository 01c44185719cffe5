// Calls of functools.lru_cache wrappers. A result that the cache holds is read from it, guarded like any object, and
// the call is counted in replay. On a miss the function is called now, if it has no other effect.
#include <cmath>
#include <optional>

#include "builtins/python_support.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/confined.h"
#include "trace/read_later.h"
#include "trace/realize.h"

namespace gramme::builtins {
namespace {

using value::Kind;
using value::Object;
using SK = source::Kind;

/// True if a newly made result cannot be distinguished from the cached one.
bool is_kept(Trace& trace, Value* result) {
  if (result->existing() || result->kind == Kind::Constant) return true;
  auto* tuple = value::as<value::Tuple>(result);
  return tuple && std::all_of(tuple->items.begin(), tuple->items.end(),
                              [&](Value* item) { return is_kept(trace, trace.see(item)); });
}

/// True for torch's own caches: results do not change during the process, and nobody reads the hit counts.
bool is_of_torch(Value* wrapped) {
  if (wrapped->kind != Kind::Function || !wrapped->object) return false;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(wrapped->object)->func_module;
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!name) PyErr_Clear();  // lone surrogates
  return name && std::string_view(name).starts_with("torch.");
}

/// True for functions of installed packages: caches hold facts about the process, and no program reads their hit
/// counts.
bool is_of_package(Value* wrapped) {
  static PyObject* const key = intern("__file__");
  if (wrapped->kind != Kind::Function || !wrapped->object) return false;
  PyObject* file = PyDict_GetItemWithError(PyFunction_GET_GLOBALS(wrapped->object), key);
  const char* path = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : nullptr;
  if (!path) PyErr_Clear();  // lone surrogates
  return path && std::string_view(path).find("-packages") != std::string_view::npos;
}

/// A call of the wrapper.
struct Call {
  Trace& trace;
  Object* wrapper;
  Value* wrapped;
  const Args args;  // without the wrapper itself
  bool of_package;
};

// ---- keys

bool is_number(Trace& trace, Value* value) {
  value = trace.see(value);
  if (auto* tuple = value::as<value::Tuple>(value))
    return std::ranges::any_of(tuple->items, [&](Value* item) { return is_number(trace, item); });
  return value->kind == Kind::Number;
}

/// True if the call depends on a number that varies.
bool varies(const Call& call) {
  const size_t count = call.args.positional + call.args.keywords;
  return std::any_of(call.args.values, call.args.values + count,
                     [&](Value* argument) { return is_number(call.trace, argument); });
}

/// True for a result of another cache, which lives as long as that cache (and a fact) holds it.
bool is_from_cache(const Value* value) { return value->source && trace::is_result_of_cache(value->source); }

/// True for a module's global, such as a logger: it differs at another call only if it was replaced.
bool is_global(const Value* value) {
  return value->source->kind == SK::Value && value->source->base->kind == SK::Globals;
}

/// A part of a key that equals that of later calls if and only if the guards hold; null if there is none.
Owned<> key_part(const Call& call, Value* value) {
  Trace& trace = call.trace;
  value = trace.see(value);
  if (value->kind == Kind::Constant) {
    const bool no_number = PyFloat_CheckExact(value->object) && std::isnan(PyFloat_AS_DOUBLE(value->object));
    return no_number ? Owned<>() : share(value->object);
  }
  auto* tuple = value::as<value::Tuple>(value);
  if (tuple && (tuple->type == &PyTuple_Type || tuple->type == trace::known_types().size)) {
    Owned<> parts = take(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      Owned<> part = key_part(call, tuple->items[i]);
      if (!part) return {};
      PyTuple_SET_ITEM(parts.get(), i, part.release());
    }
    if (tuple->type == &PyTuple_Type) return parts;
    return take(PyObject_CallOneArg(reinterpret_cast<PyObject*>(tuple->type), parts.get()));
  }
  if (!value->existing()) return {};
  if (value->source->kind != SK::Pinned) {
    const bool stays = is_from_cache(value) || (call.of_package && is_global(value));
    if (value->kind != Kind::Object || !stays) return {};
    trace.facts.add({value->source, guards::Kind::Identity, share(value->object)});
  }
  return share(value->object);
}

/// The call's real arguments, and the key that the wrapper makes of them.
struct Key {
  Owned<> args, keywords, key;
  explicit operator bool() const { return static_cast<bool>(key); }
};

Key key_of(const Call& call) {
  const size_t positional = call.args.positional;
  Key result{take(PyTuple_New(static_cast<Py_ssize_t>(positional))), {}, {}};
  if (call.args.keywords) result.keywords = take(PyDict_New());
  for (size_t i = 0; i < positional + call.args.keywords; ++i) {
    Owned<> part = key_part(call, call.args[i]);
    if (!part || !cpython::is_inert_key(part.get())) return {};
    if (i < positional)
      PyTuple_SET_ITEM(result.args.get(), i, part.release());
    else
      check(PyDict_SetItem(result.keywords.get(), call.args.names[i - positional], part.get()));
  }
  result.key = cpython::cache_key(call.wrapper->object, result.args.get(), result.keywords.get());
  return result;
}

// ---- effects of a function besides its result

/// Detects effects since construction. Unused arithmetic on varying numbers does not count.
class Doings {
 public:
  explicit Doings(Trace& trace) : trace_(trace), effects_(count()), nodes_(nodes().size()) {}
  bool any() const {
    const auto is_arithmetic = [](const graph::Node* node) {
      bool tensors = false;
      meta::each_leaf(node->call, [&](const auto& leaf) { tensors |= leaf.kind == meta::Argument::Tensor; });
      return node->number_type && !tensors;
    };
    const auto first = nodes().begin() + static_cast<std::ptrdiff_t>(std::min(nodes_, nodes().size()));
    return count() != effects_ || !std::all_of(first, nodes().end(), is_arithmetic);
  }

 private:
  size_t count() const { return trace_.effects().entries().size(); }
  const std::vector<graph::Node*>& nodes() const { return trace_.scope().graph().nodes(); }
  Trace& trace_;
  size_t effects_, nodes_;
};

// ---- what the cache has

/// True unless an operator decides how often the call is made.
bool counts(const Trace& trace) { return !trace.confinement.any(); }

cpython::Lookup find(const Call& call, const Key& key, PyObject** found) {
  return cpython::dict_lookup(*cpython::cache_table_address(call.wrapper->object), key.key.get(), found);
}

const source::Source* entry_source(const Call& call, const Key& key) {
  source::Pool& pool = *call.trace.pool;
  const int64_t typed = cpython::is_typed_cache(call.wrapper->object);
  return pool.child(pool.child(call.wrapper->source, SK::CacheTable, typed), SK::Value, key.key.get());
}

const source::Source* result_source(const Call& call, const Key& key) {
  const source::Source* entry = entry_source(call, key);
  const bool bounded = cpython::is_bounded_cache(call.wrapper->object);
  return bounded ? call.trace.pool->child(entry, SK::CacheResult) : entry;
}

/// True if earlier captures found a result that is gone: the program clears the cache, and a guard on it would fail
/// again.
bool is_emptied(const Call& call, const Key& key) {
  const auto& cached = call.trace.policy.cached;
  const auto known = cached.empty() ? cached.end() : cached.find(result_source(call, key)->path);
  return known != cached.end() && known->second >= trace::kTimesCached;
}

/// The guarded cached result; counts the call in replay.
Value* take_hit(const Call& call, const Key& key, PyObject* found) {
  Trace& trace = call.trace;
  const source::Source* source = result_source(call, key);
  PyObject* result = found;
  if (cpython::is_bounded_cache(call.wrapper->object)) {
    PyObject** address = cpython::cached_result_address(found);
    if (!address) cannot(Reason::CallUnknown, "functools.lru_cache");
    result = *address;
  }
  trace.facts.add({source, guards::Kind::Present, {}});
  const bool constant = source::is_constant(key.key.get());
  Value* counted =
      constant ? trace.constant(key.key.get()) : trace.wrap(key.key.get(), trace.pool->pinned(key.key.get()));
  if (counts(trace)) trace.count_in_replay(cpython::cache_hit_counter(), {call.wrapper, counted});
  return trace.see(trace.wrap(result, source));
}

/// If the segment has changed something, traces the function to check that it reads nothing that could change: called
/// now, it would not see the changes. Not for caches of packages.
void trace_alone(const Call& call) {
  Trace& trace = call.trace;
  std::optional<trace::Confined> confined;
  static const std::unordered_set<const Value*> nothing;
  if (!trace.effects().empty() && !call.of_package) {
    confined.emplace(trace.confinement, trace.inliner);
    confined->runs_later(nothing, [](const Value* holder, PyObject*, const Value*) {
      if (holder->written) cannot(Reason::CallSkipped, "a function with a cache, which reads what was changed");
    });
  }
  protocol::call(trace, call.wrapped, call.args);
}

/// On a miss, calls the function for real after a trace has shown that it only returns a result. The program's own
/// call, which is still to come, then hits, so counts are corrected by one. Not if the function could read what the
/// segment wrote, or if the oldest entry would be evicted. If the function has effects, the segment ends there and is
/// guarded by the missing entry, so that effects that happen once in a process (a warning) break no later graph.
Value* take_miss(const Call& call, const Key& key) {
  Trace& trace = call.trace;
  PyObject* wrapper = call.wrapper->object;
  if (!cpython::has_room_in_cache(wrapper))
    cannot(Reason::CallSkipped, "a function with a cache, which does not have the result yet");
  const Doings doings(trace);
  try {
    trace_alone(call);
    if (doings.any()) cannot(Reason::CallSkipped, "a function with a cache, with effects");
  } catch (const value::UserError&) {
    if (!trace.contract.breaks) throw;
    cannot(Reason::CallSkipped, "a function with a cache, which raises");
  } catch (const CannotCapture&) {
    trace.refuses_without(entry_source(call, key));
    throw;
  }
  if (!Owned<>::steal(PyObject_Call(wrapper, key.args.get(), key.keywords.get()))) protocol::raise_current(trace);
  if (counts(trace)) cpython::expect_cache_hit(wrapper);
  PyObject* found = nullptr;
  if (find(call, key, &found) != cpython::Lookup::Found) GRAMME_BUG("a cache does not have what it was asked for");
  return take_hit(call, key, found);
}

// ---- without the cache

/// Traces the wrapped function past the cache, as PyTorch's front end does. Ends the segment if the function has
/// effects, or if its result can be distinguished from the cached one.
Value* trace_wrapped(const Call& call, bool of_torch) {
  Trace& trace = call.trace;
  for (size_t i = 0; i < call.args.positional + call.args.keywords; ++i) {
    Kind kind = trace.see(call.args[i])->kind;
    if (kind == Kind::List || kind == Kind::Dict || kind == Kind::Set)
      cannot(Reason::ArgumentKind, "a cached function called with a mutable container");
  }
  const Doings doings(trace);
  Value* result = trace.see(protocol::call(trace, call.wrapped, call.args));
  if (of_torch) return result;
  if (doings.any()) cannot(Reason::CallSkipped, "a function with a cache, with effects");
  if (is_kept(trace, result)) return result;
  if (!varies(call)) cannot(Reason::CallSkipped, "a function with a cache, with a new result");
  trace.scope().state<trace::ReadLater>().keep_made(trace, result);
  return result;
}

Value* call_cached(Trace& trace, const Args& args) {
  static PyObject* const kWrapped = intern("__wrapped__");
  auto* wrapper = args.positional ? trace.see_as<Object>(args[0]) : nullptr;
  Value* wrapped = wrapper ? trace.own_attribute(wrapper, kWrapped) : nullptr;
  if (!wrapped) cannot(Reason::CallUnknown, "functools.lru_cache");
  const Call call{trace, wrapper, trace.see(wrapped), rest(args, 1), is_of_package(trace.see(wrapped))};
  if (is_of_torch(call.wrapped)) return trace_wrapped(call, true);
  const bool traced = !trace.contract.breaks || call.of_package;  // then tracing it is allowed
  const bool readable = wrapper->existing() && !wrapper->written && cpython::is_lru_cache(wrapper->object) &&
                        (!trace.confinement.any() || call.of_package) && !varies(call);
  if (Key key = readable ? key_of(call) : Key()) {
    PyObject* found = nullptr;
    const cpython::Lookup lookup = find(call, key, &found);
    if (lookup == cpython::Lookup::Found) return take_hit(call, key, found);
    const bool emptied = lookup == cpython::Lookup::Absent && is_emptied(call, key);
    if (emptied && trace.contract.breaks) cannot(Reason::CallSkipped, "a function with a cache that was emptied");
    if (lookup == cpython::Lookup::Absent && !emptied &&
        (trace.contract.breaks || cpython::has_room_in_cache(wrapper->object)))
      return take_miss(call, key);
  }
  if (!traced) cannot(Reason::CallSkipped, "a function with a cache");
  return trace_wrapped(call, false);
}

}  // namespace

void register_lru_cache() { add_rows("functools", Takes::Asked, {{"_lru_cache_wrapper.__call__", &call_cached}}); }

}  // namespace gramme::builtins
