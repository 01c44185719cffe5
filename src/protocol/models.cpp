// The tables of models for C functions, and of pure functions that may be called on constants.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/process.h"
#include "cpython/objects.h"
#include "meta/silence.h"
#include "protocol/accepted.h"
#include "protocol/numpy.h"
#include "protocol/special.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "torch/names.h"

namespace gramme::protocol {

namespace {

/// Hash for lookups by string_view without a copy.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

/// The text; empty if it is not valid UTF-8.
std::string_view text_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (!utf8) PyErr_Clear();
  return utf8 ? std::string_view(utf8, static_cast<size_t>(size)) : std::string_view();
}

/// Keys stay alive for the process's lifetime.
struct Tables {
  std::unordered_map<PyObject*, Modelled> models;
  std::unordered_set<PyObject*> pure;
  std::unordered_map<std::string, std::pair<std::string, FunctionModel>, NameHash, std::equal_to<>>
      by_name;  // qualified name -> file suffix, model
  std::unordered_set<PyObject*> unseen;
  Classifier classifier = nullptr;
};
AtLoad<Tables> tables;

/// The object module.a.b as it appears in calls: the raw dict entry for attributes of types. Null if it does not exist.
Owned<> resolve(const char* module, const char* qualified_name) {
  Owned<> object = Owned<>::steal(import_module(module));
  std::string path = qualified_name;
  for (size_t at = 0; object && at <= path.size();) {
    size_t dot = std::min(path.find('.', at), path.size());
    Owned<> name = take(PyUnicode_InternFromString(path.substr(at, dot - at).c_str()));
    PyObject* raw = nullptr;
    if (PyType_Check(object.get()))
      raw = cpython::type_lookup(reinterpret_cast<PyTypeObject*>(object.get()), name.get());
    if (raw && !Py_IS_TYPE(raw, &PyStaticMethod_Type) && !Py_IS_TYPE(raw, &PyClassMethod_Type) &&
        !Py_IS_TYPE(raw, &PyGetSetDescr_Type))
      object = share(raw);
    else
      object = Owned<>::steal(PyObject_GetAttr(object.get(), name.get()));
    if (object && PyInstanceMethod_Check(object.get())) object = share(PyInstanceMethod_GET_FUNCTION(object.get()));
    at = dot + 1;
  }
  PyErr_Clear();
  return object;
}

}  // namespace

void add_model(PyObject* callable, Model model, Takes takes) {
  if (tables.fill().models.insert_or_assign(callable, Modelled{callable, model, takes}).second)
    share(callable).release();
}

void add_model(const char* module, const char* qualified_name, Model model, Takes takes) {
  if (Owned<> callable = resolve(module, qualified_name)) add_model(callable.get(), model, takes);
}

Modelled find_model(PyObject* callable) {
  auto found = tables->models.find(callable);
  return found == tables->models.end() ? Modelled{} : found->second;
}

std::vector<Modelled> all_models() {
  std::vector<Modelled> all;
  for (auto& [callable, modelled] : tables->models) all.push_back(modelled);
  return all;
}

Value* Modelled::operator()(Trace& trace, const Args& args) const {
  bool method = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
  if (method) {  // without self, or with one of another type, CPython raises
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    if (!args.positional || !PyType_IsSubtype(type_of(trace.see(args[0])), owner))
      cannot(Reason::ArgumentKind, std::string("a method of ") + owner->tp_name + " called on something else");
  }
  if (Py_IS_TYPE(callable, &PyClassMethodDescr_Type)) {
    auto* cls = args.positional ? trace.see_as<value::Class>(args[0]) : nullptr;
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    if (!cls || !PyType_IsSubtype(cls->type(), owner))
      cannot(Reason::ArgumentKind, std::string("a class method of ") + owner->tp_name + " called on something else");
  }
  if (!takes_as_many(callable, args)) cannot(Reason::ArgumentKind, "a call with arguments that are not taken");
  if (takes == Takes::Plain)
    for (size_t i = method; i < args.positional + args.keywords; ++i)
      if (Value* seen = trace.see(args.values[i]); extends_builtin(seen))
        cannot(Reason::ArgumentKind, "an argument of type " + type_name(seen));
  trace.enter_opaque();
  return model(trace, args);
}

void add_function_model(const char* file_suffix, const char* qualified_name, FunctionModel model) {
  tables.fill().by_name[qualified_name] = {file_suffix, model};
}

void add_function_model(of_torch::Code code, FunctionModel model) {
  const auto [file, name] = of_torch::place(code);
  if (name) add_function_model(file, name, model);
}

void add_unseen(PyObject* function) { tables.fill().unseen.insert(share(function).release()); }
bool is_unseen(PyObject* function) { return tables->unseen.contains(function); }

Value* traced_whole(Trace& trace, value::Function* function, const Args& args) {
  return trace.inliner->call(function, args);
}

FunctionModel find_function_model(PyCodeObject* code) {
  auto named = tables->by_name.find(text_of(code->co_qualname));
  bool found = named != tables->by_name.end() && text_of(code->co_filename).ends_with(named->second.first);
  return found ? named->second.second : nullptr;
}

void add_pure(PyObject* callable) {
  if (tables.fill().pure.insert(callable).second) share(callable).release();
}

void add_pure(const char* module, const char* qualified_name) {
  if (Owned<> callable = resolve(module, qualified_name)) add_pure(callable.get());
}

bool is_pure(PyObject* callable) { return tables->pure.contains(callable); }

Value* fold(Trace& trace, PyObject* callable, const Args& args) {
  std::vector<Owned<>> held;
  std::vector<PyObject*> values;
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    held.push_back(trace.concrete(args.values[i]));
    if (!held.back()) return nullptr;
    values.push_back(held.back().get());
  }
  Owned<> names;
  if (args.keywords) {
    names = take(PyTuple_New(static_cast<Py_ssize_t>(args.keywords)));
    for (size_t i = 0; i < args.keywords; ++i) PyTuple_SET_ITEM(names.get(), i, share(args.names[i]).release());
  }
  auto apply = [&] { return PyObject_Vectorcall(callable, values.data(), args.positional, names.get()); };
  const char* owner =
      PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable)->tp_name : Py_TYPE(callable)->tp_name;
  if (std::string_view(owner).starts_with("numpy.") || std::any_of(values.begin(), values.end(), source::is_scalar))
    return computed_by_numpy(trace, apply);
  Owned<> result;
  bool warned;
  {
    meta::Silence silence;
    result = Owned<>::steal(apply());
    warned = silence.warned;
  }
  if (warned && trace.contract.breaks) cannot(Reason::OperatorWarns);
  if (!result) raise_current(trace);
  return trace.adopt(std::move(result));
}

void set_classifier(Classifier classifier) { tables.fill().classifier = classifier; }

Treatment treatment(PyObject* callable) {
  return tables->classifier ? tables->classifier(callable) : Treatment::Inline;
}

void expect(Trace& trace, const Args& args, const char* name, size_t least, size_t most) {
  if (args.positional >= least && args.positional <= most) return;
  std::string bound = least == most             ? "exactly " + std::to_string(least)
                      : args.positional < least ? "at least " + std::to_string(least)
                                                : "at most " + std::to_string(most);
  size_t limit = args.positional < least ? least : most;
  raise(trace, PyExc_TypeError,
        std::string(name) + "() takes " + bound + (limit == 1 ? " argument (" : " arguments (") +
            std::to_string(args.positional) + " given)");
}

}  // namespace gramme::protocol
