// weakref.ref: construction and dereferencing. Its equality and hash end the segment.
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using value::Object;

/// The attribute that holds the referent of a weakref made in the capture; its name is not a valid identifier.
PyObject* referent_name() {
  static PyObject* const name = intern("(referent)");
  return name;
}

Value* make_reference(Trace& trace, const Args& args) {
  auto [target, callback] = positional<2>(args, 1);
  if (!is_none(trace, callback)) cannot(Reason::ArgumentKind, "a weak reference with a callback");
  Value* seen = trace.see(target);
  PyTypeObject* type = protocol::type_of(seen);
  if (!PyType_SUPPORTS_WEAKREFS(type))
    protocol::raise(trace, PyExc_TypeError,
                    std::string("cannot create weak reference to '") + type->tp_name + "' object");
  auto* reference = trace.make<Object>();
  reference->type = &_PyWeakref_RefType;
  reference->attributes.push_back({referent_name(), seen});
  return reference;
}

/// True if the capture has written to an object on the source's path.
bool holder_changed(Trace& trace, const source::Source* source) {
  bool changed = false;
  auto ask = [&](Value* holder, effects::Kind kind) {
    if (holder->source != source->base) return;
    bool by_name = source->kind == source::Kind::Attr || holder->kind == value::Kind::Namespace;
    changed |= by_name ? trace.effects().contains(kind, holder, source->key.get()) : holder->written;
  };
  trace.objects.each([&](Value* holder) { ask(holder, effects::Kind::StoreAttr); });
  trace.objects.each_namespace([&](Value* holder) { ask(holder, effects::Kind::StoreGlobal); });
  return changed;
}

/// True if a root object stays alive for the whole segment: the function, pinned objects, variables that were not
/// assigned.
bool root_stays(Trace& trace, const source::Source* root) {
  if (root->kind == source::Kind::Function || root->kind == source::Kind::Pinned) return true;
  if (root->kind != source::Kind::Local) return false;
  Value* now = trace.inliner->root_local(root->index);
  return now && now->source == root;
}

/// True if everything that was alive at the segment's start still is: no existing object changed, no tensor written
/// (its history may hold objects), and the frame holds what it held.
bool holds_its_start(Trace& trace) {
  return trace.effects().empty() && !trace.scope().writes().has_inputs() && trace.inliner->holds_its_start();
}

/// True if something surely keeps the referent alive. The capture keeps real objects alive, so it cannot see one die; a
/// variable or an object on the path may have been deleted.
bool is_held(Trace& trace, Value* referent) {
  if (trace.inliner->is_in_local(referent)) return true;
  const source::Source* source = referent->source;
  if (!source) return false;
  if (holds_its_start(trace)) return true;
  for (; source->base; source = source->base)
    if (source->kind == source::Kind::WeakTarget || holder_changed(trace, source)) return false;
  return root_stays(trace, source);
}

/// The referent, read again at every call of the segment.
Value* call_reference(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  auto* reference = trace.see_as<Object>(self);
  if (!reference) cannot(Reason::ArgumentKind, "a weak reference's call on something else");
  Value* referent = nullptr;
  if (reference->existing() && reference->object && PyWeakref_CheckRef(reference->object))
    referent = trace.see(trace.wrap(PyWeakref_GET_OBJECT(reference->object),
                                    trace.pool->child(reference->source, source::Kind::WeakTarget)));
  else if (!reference->attributes.empty())
    referent = reference->attributes.at(0).value;
  if (!referent || (referent != trace.none() && !is_held(trace, referent)))
    cannot(Reason::ArgumentKind, "a weak reference to an object that may be gone");
  return referent;
}

}  // namespace

void register_weakref() {
  add_rows("weakref", Takes::Asked, {{"ReferenceType", &make_reference}, {"ReferenceType.__call__", &call_reference}});
}

}  // namespace gramme::builtins
