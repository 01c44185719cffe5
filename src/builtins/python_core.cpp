// Builtin functions that inspect or read objects (len, isinstance, getattr, type, iter, next, any, sorted …), and
// builtins that run for real.
#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/answers.h"
#include "protocol/special.h"
#include "protocol/tensors.h"
#include "protocol/texts.h"

namespace gramme::builtins {
namespace {

using value::Iterator;
using value::Kind;

// ---- attributes

Value* get_attr(Trace& trace, const Args& args) {
  auto [object, name, missing] = positional<3>(args, 2);
  PyObject* attribute = name_argument(trace, name);
  if (!missing) return protocol::get_attribute(trace, object, attribute);
  Value* found = protocol::find_attribute(trace, object, attribute);
  return found ? found : missing;
}

Value* has_attr(Trace& trace, const Args& args) {
  auto [object, name] = positional<2>(args, 2);
  return trace.boolean(protocol::find_attribute(trace, object, name_argument(trace, name)) != nullptr);
}

Value* set_attr(Trace& trace, const Args& args) {
  auto [object, name, item] = positional<3>(args, 3);
  protocol::set_attribute(trace, object, name_argument(trace, name), item);
  return trace.none();
}

Value* del_attr(Trace& trace, const Args& args) {
  auto [object, name] = positional<2>(args, 2);
  protocol::delete_attribute(trace, object, name_argument(trace, name));
  return trace.none();
}

Value* vars_of(Trace& trace, const Args& args) {
  static PyObject* const kDict = intern("__dict__");
  auto [object] = positional<1>(args, 0);
  if (!object) cannot(Reason::ArgumentKind, "vars() of a running frame");
  if (Value* dict = protocol::find_attribute(trace, object, kDict)) return dict;
  protocol::raise(trace, PyExc_TypeError, "vars() argument must have __dict__ attribute");
}

// ---- types

Value* is_instance(Trace& trace, const Args& args) {
  auto [object, classinfo] = positional<2>(args, 2);
  return trace.boolean(protocol::isinstance(trace, object, classinfo));
}

Value* is_subclass(Trace& trace, const Args& args) {
  auto [cls, classinfo] = positional<2>(args, 2);
  return trace.boolean(protocol::issubclass(trace, cls, classinfo));
}

Value* is_callable(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  return trace.boolean(protocol::callable(trace, object));
}

Value* globals_of_caller(Trace& trace, const Args& args) {
  all_positional(args, 0);
  return trace.inliner->current_function()->globals;
}

/// type(name, bases, names); the class's module is that of the calling function.
Value* class_of_three(Trace& trace, const Args& args) {
  static PyObject* const kModule = intern("__module__");
  static PyObject* const kName = intern("__name__");
  auto* bases = trace.see_as<value::Tuple>(args[1]);
  auto* given = trace.see_as<value::Dict>(args[2]);
  if (!bases || !given) cannot(Reason::ArgumentKind, "type() making a class");
  trace.load(given);
  value::Dict* names = trace.dict();
  Value* module = trace.global(static_cast<value::Namespace*>(trace.inliner->current_function()->globals), kName);
  if (module) trace.dict_set(names, trace.constant(kModule), module);
  given->entries.each([&](auto& entry) { trace.dict_set(names, entry.key, entry.value); });
  return protocol::make_class(trace, &PyType_Type, args[0], bases->items, names, {});
}

Value* type_of_value(Trace& trace, const Args& args) {
  if (args.positional == 3 && !args.keywords) return class_of_three(trace, args);
  if (args.positional != 1 || args.keywords) cannot(Reason::ArgumentKind, "type() making a class");
  return protocol::class_value(trace, protocol::type_of(trace.see(args[0])));
}

/// hash(). Hashes of str differ between processes, so a segment that folded one is not portable.
Value* hash_of(Trace& trace, const Args& args) {
  static PyObject* const kHash = intern("__hash__");
  PyObject* const real_hash = once([] { return real("builtins", "hash"); });
  auto [object] = positional<1>(args, 1);
  Value* seen = trace.see(object);
  if (protocol::forbidden(trace, seen, kHash))
    protocol::raise(trace, PyExc_TypeError, std::string("unhashable type: '") + type_name(seen) + "'");
  if (seen->kind == Kind::Object)
    if (Value* method = protocol::special_method(trace, seen, kHash)) {
      PyObject* answer = trace.constant_of(protocol::answer(trace, protocol::Answer::of_hash, method));
      if (!answer) cannot(Reason::DataDependentValue, "a hash that depends on data");
      return trace.constant(take(PyLong_FromSsize_t(protocol::hash_answered(answer))));
    }
  Owned<> known = inert(trace, seen);
  if (!known) cannot(Reason::ArgumentKind, std::string("hash() of ") + type_name(seen));
  return trace.constant(call_real(trace, real_hash, {known.get()}));
}

// ---- length, iteration

Value* len(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  if (auto* tensor = trace.see_as<value::Tensor>(object)) return trace.integer(protocol::tensor_length(trace, tensor));
  return trace.integer(protocol::length(trace, object));
}

Value* iter(Trace& trace, const Args& args) {
  auto [object, sentinel] = positional<2>(args, 1);
  if (!sentinel) return protocol::get_iterator(trace, object);
  if (!protocol::callable(trace, object)) protocol::raise(trace, PyExc_TypeError, protocol::no_callable_text());
  return protocol::make_iterator(trace, Iterator::CallUntil, {object, sentinel});
}

/// next() of an instance or generator by `__next__`, which keeps the value of its StopIteration.
Value* next_or_raise(Trace& trace, Value* iterator, bool value_counts) {
  static PyObject* const kNext = intern("__next__");
  if (iterator->kind == Kind::Object)
    if (Value* method = protocol::special_method(trace, iterator, kNext)) return protocol::call(trace, method, {});
  if (auto* generator = value::as<value::Generator>(iterator)) {
    if (generator->running) protocol::raise(trace, PyExc_ValueError, "generator already executing");
    Value* returned = trace.none();
    Value* item = generator->frame ? trace.inliner->resume(generator, trace.none(), nullptr, &returned) : nullptr;
    return item ? item : (raise_stop_iteration(trace, returned), nullptr);
  }
  if (iterator->kind != Kind::Iterator)
    protocol::raise(trace, PyExc_TypeError, std::string("'") + type_name(iterator) + "' object is not an iterator");
  if (Value* item = protocol::next(trace, iterator)) return item;
  if (value_counts) protocol::refuse_stop_value(trace, static_cast<Iterator*>(iterator));
  raise_stop_iteration(trace, nullptr);
}

Value* next(Trace& trace, const Args& args) {
  auto [object, missing] = positional<2>(args, 1);
  Value* iterator = trace.see(object);
  if (!missing) return next_or_raise(trace, iterator, true);
  Value* item = nullptr;
  return raises(trace, PyExc_StopIteration, [&] { item = next_or_raise(trace, iterator, false); }) ? missing : item;
}

template <bool wanted>
Value* any_or_all(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 1);
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* item = protocol::next(trace, iterator))
    if (protocol::truth(trace, item) == wanted) return trace.boolean(wanted);
  return trace.boolean(!wanted);
}

Value* sorted(Trace& trace, const Args& args) {
  auto [iterable, key, reverse] = bind(args, 1, {"", "key", "reverse"});
  std::vector<Value*> items = protocol::items_of(trace, iterable);
  sort_values(trace, items, key, reverse_flag(trace, reverse));
  return trace.list(std::move(items));
}

// ---- super()

bool is_free_variable(const PyCodeObject* code, PyObject* name) {
  for (int i = code->co_nlocalsplus - code->co_nfreevars; i < code->co_nlocalsplus; ++i)
    if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) return true;
  return false;
}

/// The class that super() finds in the frame: the content of the free variable __class__.
Value* class_around(Trace& trace) {
  static PyObject* const kClass = intern("__class__");
  const PyCodeObject* code = trace.inliner->current_function()->code;
  auto refused = [&trace](const std::string& why) { protocol::raise(trace, PyExc_RuntimeError, "super(): " + why); };
  if (code->co_argcount == 0) refused("no arguments");
  if (!trace.inliner->first_argument()) cannot(Reason::CallUnknown, "super() without a first argument");
  if (!is_free_variable(code, kClass)) refused("__class__ cell not found");
  Value* found = trace.inliner->variable(kClass);
  if (!found) refused("empty __class__ cell");
  PyTypeObject* type = protocol::type_of(trace.see(found));
  if (!PyType_IsSubtype(type, &PyType_Type)) refused(std::string("__class__ is not a type (") + type->tp_name + ")");
  return found;
}

/// super(): looks up after `type` in the MRO of the object's class, or of the object if that is a class.
Value* make_super(Trace& trace, const Args& args) {
  auto [type, object] = positional<2>(args, 0);
  if (type && !object) cannot(Reason::ArgumentKind, "super() with one argument");
  if (!type) {
    type = class_around(trace);
    object = trace.inliner->first_argument();
  }
  auto* result = trace.make<value::Super>();
  result->type = class_argument(trace, type);
  result->self = trace.see(object);
  auto* cls = value::as<value::Class>(result->self);
  bool of_class = cls && PyType_IsSubtype(cls->type(), result->type);
  result->start_type = of_class ? cls->type() : protocol::type_of(result->self);
  if (!PyType_IsSubtype(result->start_type, result->type))
    protocol::raise(trace, PyExc_TypeError, protocol::wrong_super_text(trace, result->type, result->self));
  return result;
}

// ---- id()

Value* id_of(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  return trace.address(object);
}

/// int.__eq__ and __ne__, also between addresses.
template <bool wanted>
Value* compare_ints(Trace& trace, const Args& args) {
  PyObject* const method = once([] { return real("builtins", wanted ? "int.__eq__" : "int.__ne__"); });
  auto [self, other] = positional<2>(args, 2);
  Value *left = trace.see(self), *right = trace.see(other);
  bool known = !value::is_address(left) && !value::is_address(right);
  if (known) return fold_or_stop(trace, method, args, "int.__eq__");
  const bool addresses = value::is_address(left) && value::is_address(right) && !left->source && !right->source;
  if (addresses || left == right) return trace.boolean((left == right) == wanted);
  cannot(Reason::ArgumentKind, "id() of an object compared with a number");
}

}  // namespace

void register_core() {
  add_rows("builtins", Takes::Asked,
           {
               {"getattr", &get_attr},
               {"hasattr", &has_attr},
               {"setattr", &set_attr},
               {"delattr", &del_attr},
               {"vars", &vars_of},
               {"isinstance", &is_instance},
               {"issubclass", &is_subclass},
               {"callable", &is_callable},
               {"type", &type_of_value},
               {"hash", &hash_of},
               {"id", &id_of},
               {"len", &len},
               {"iter", &iter},
               {"next", &next},
               {"any", &any_or_all<true>},
               {"all", &any_or_all<false>},
               {"sorted", &sorted},
               {"super", &make_super},
               {"int.__eq__", &compare_ints<true>},
               {"int.__ne__", &compare_ints<false>},
           });
  add_rows("builtins", Takes::Asked,
           {
               {"input", &run_for_real<"input">},
               {"open", &run_for_real<"open">},
               {"exec", &run_for_real<"exec">},
               {"eval", &run_for_real<"eval">},
               {"compile", &run_for_real<"compile">},
               {"__import__", &run_for_real<"__import__">},
               {"breakpoint", &run_for_real<"breakpoint">},
               {"globals", &globals_of_caller},
               {"locals", &run_for_real<"locals">},
               {"dir", &run_for_real<"dir">},
           });
}

}  // namespace gramme::builtins
