// Attributes of functions, methods and partials.
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "protocol/special.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;
using namespace names;
using SK = source::Kind;

namespace {

/// MAKE_FUNCTION stores annotations as a tuple; the first request makes the dict.
Dict* new_annotations(Trace& trace, Value* made) {
  if (auto* known = made ? trace.see_as<Dict>(made) : nullptr) return known;
  Dict* dict = trace.dict();
  auto* pairs = made ? trace.see_as<Tuple>(made) : nullptr;
  for (size_t i = 0; pairs && i + 1 < pairs->items.size(); i += 2)
    dict->entries.set(pairs->items[i], pairs->items[i + 1]);
  return dict;
}

Value* function_annotations(Trace& trace, Function* function) {
  if (!function->existing()) {
    constexpr long kValues = 1;  // annotationlib.Format.VALUE
    const bool is_asked = !function->annotations && function->annotate;
    Value* made = is_asked ? call(trace, function->annotate, {trace.constant(take(PyLong_FromLong(kValues)))})
                           : new_annotations(trace, function->annotations);
    return function->annotations = made;
  }
  if (cpython::makes_annotations(function->object))
    cannot(Reason::AttributeUnknown, "annotations that are made when they are asked for");
  Owned<> real = take(PyObject_GetAttr(function->object, k_annotations));
  return trace.wrap(real.get(), trace.pool->child(function->source, SK::Annotations));
}

/// True for fields that only later versions of CPython have; in others they are ordinary attributes.
bool is_later_field(PyObject* name) {
  return (name == k_annotate || name == k_type_params) && cpython::type_lookup(&PyFunction_Type, name);
}

/// The field's index as in plan::name_address.
int64_t field_index(PyObject* name) { return name == k_module ? 2 : name == k_doc ? 3 : name == k_type_params ? 4 : 5; }

/// Writable fields such as __module__ and __doc__.
Value* function_field(Trace& trace, Function* function, PyObject* name) {
  if (Attribute* written = find(function->fields, name)) return written->value;
  if (function->existing()) {
    Owned<> real = take(PyObject_GetAttr(function->object, name));
    trace.classes.guard_name(function->object, function->source, field_index(name));
    if (source::is_constant(real.get())) return trace.constant(real);
    if (!is_later_field(name)) cannot(Reason::AttributeUnknown, "a function's " + text_of(name));
    return trace.pinned(real.get());
  }
  if (name == k_annotate) return or_none(trace, function->annotate);
  if (name == k_type_params) return trace.tuple({});
  if (name == k_module) return or_none(trace, trace.global(static_cast<Namespace*>(function->globals), k_name));
  PyObject* consts = function->code->co_consts;
  PyObject* doc = PyTuple_GET_SIZE(consts) > 0 ? PyTuple_GET_ITEM(consts, 0) : Py_None;
  return trace.constant(PyUnicode_Check(doc) ? doc : Py_None);
}

}  // namespace

Value* function_attribute(Trace& trace, Function* function, PyObject* name) {
  trace.describe(function);
  if (name == k_name || name == k_qualname) {
    if (function->existing()) trace.classes.guard_name(function->object, function->source, name == k_name ? 0 : 1);
    return trace.constant(name == k_name ? function->name : function->qualname);
  }
  if (name == k_code) return trace.constant(reinterpret_cast<PyObject*>(function->code));
  if (name == k_defaults) return or_none(trace, function->defaults);
  if (name == k_kwdefaults) return or_none(trace, function->kwdefaults);
  if (name == k_class) return class_value(trace, &PyFunction_Type);
  if (name == k_globals) cannot(Reason::AttributeUnknown, "the globals of a function as a dict");
  if (name == k_closure) return function->closure.empty() ? trace.none() : trace.tuple(function->closure);
  if (name == k_annotations) return function_annotations(trace, function);
  if (name == k_module || name == k_doc || is_later_field(name)) return function_field(trace, function, name);
  if (name == k_dict) return instance_dict(trace, function, function->dict);
  PyObject* found = cpython::type_lookup(&PyFunction_Type, name);
  if (found && is_data_descriptor(trace, found)) cannot(Reason::AttributeUnknown, "a function's " + text_of(name));
  if (Value* own = trace.own_attribute(function, name)) return own;
  return found ? bind(trace, found, trace.pinned(found), function, &PyFunction_Type) : nullptr;
}

Value* method_attribute(Trace& trace, Method* method, PyObject* name) {
  if (name == k_func) return method->function;
  if (name == k_self) return method->self;
  if (name == k_class) return class_value(trace, &PyMethod_Type);
  PyObject* found = cpython::type_lookup(&PyMethod_Type, name);
  if (found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type)))
    return bind(trace, found, trace.pinned(found), method, &PyMethod_Type);
  return get_attribute(trace, method->function, name);  // raises with the function's type in the message
}

namespace {

void store_function_field(Trace& trace, Function* function, PyObject* name, Value* value) {
  trace.confinement.changes(function);
  PyObject* text = value ? trace.constant_of(value) : nullptr;
  if (function->existing() || !value) cannot(Reason::MutationUnsupported, "a function's " + text_of(name));
  trace.confinement.changes(function);
  Value* content = trace.see(value) == trace.none() ? nullptr : value;
  const Kind kind = content ? trace.see(content)->kind : Kind::Null;
  bool fits = name == k_defaults                              ? !content || kind == Kind::Tuple
              : name == k_kwdefaults || name == k_annotations ? !content || kind == Kind::Dict
              : name == k_annotate                            ? !content || kind == Kind::Function
              : name == k_type_params ? content && (kind == Kind::Tuple || (text && PyTuple_Check(text)))
                                      : true;
  if (!fits) cannot(Reason::MutationUnsupported, "a function's " + text_of(name) + " of another type");
  if (name == k_name && text)
    function->name = text;
  else if (name == k_qualname && text)
    function->qualname = text;
  else if (name == k_defaults)
    function->defaults = content;
  else if (name == k_kwdefaults)
    function->kwdefaults = content;
  else if (name == k_annotations)
    function->annotations = content, function->annotate = nullptr;
  else if (name == k_annotate)
    function->annotate = content, function->annotations = content ? nullptr : function->annotations;
  else if (Attribute* written = find(function->fields, name))
    written->value = value;
  else if (name == k_doc || name == k_module || name == k_type_params)
    function->fields.push_back({name, value});
  else
    cannot(Reason::MutationUnsupported, "a function's " + text_of(name));
}

}  // namespace

void store_in_function(Trace& trace, Function* function, PyObject* name, Value* value) {
  PyObject* field = cpython::type_lookup(&PyFunction_Type, name);
  if (field && is_data_descriptor(trace, field)) return store_function_field(trace, function, name, value);
  if (!value && !trace.own_attribute(function, name))
    raise(trace, PyExc_AttributeError, "'function' object has no attribute '" + text_of(name) + "'");
  trace.store_own_attribute(function, name, value);
}

namespace {
/// The keywords dict of an existing partial.
Dict* keyword_dict(Trace& trace, Partial* partial) {
  const source::Source* path = trace.pool->child(partial->source, SK::PartialKw);
  auto* keywords = trace.see_as<Dict>(trace.wrap(cpython::as_partial(partial->object)->keywords, path));
  if (!keywords) cannot(Reason::AttributeUnknown, "a partial whose keywords are not a dict");
  return keywords;
}
}  // namespace

const Attributes& partial_keywords(Trace& trace, Partial* partial) {
  if (!partial->existing()) return partial->keywords;
  Dict* keywords = keyword_dict(trace, partial);
  trace.load(keywords);
  partial->keywords = {};
  keywords->entries.each([&](Table::Entry& entry) {
    PyObject* name = name_key(trace, entry.key);
    if (!name) cannot(Reason::ArgumentKind, "a partial with keywords that are not str");
    partial->keywords.push_back({name, entry.value});
  });
  return partial->keywords;
}

Value* partial_attribute(Trace& trace, Partial* partial, PyObject* name) {
  std::string text = text_of(name);
  if (text == "func") return partial->function;
  if (text == "args") return trace.tuple(partial->args);
  if (text == "keywords") {
    if (!partial->existing()) cannot(Reason::AttributeUnknown, "the keywords of a partial made in the capture");
    return keyword_dict(trace, partial);
  }
  if (name == k_dict) cannot(Reason::AttributeUnknown, "the __dict__ of a partial");
  return trace.own_attribute(partial, name);
}

void store_held_attribute(Trace& trace, Value* holder, PyObject* name, Value* value) {
  PyObject* field = trace.type_lookup(type_of(holder), name);
  if ((field && is_data_descriptor(trace, field)) || (!value && !trace.own_attribute(holder, name)))
    cannot(Reason::MutationUnsupported, "the attribute " + text_of(name) + " of a " + type_of(holder)->tp_name);
  trace.store_own_attribute(holder, name, value);
}

}  // namespace gramme::protocol
