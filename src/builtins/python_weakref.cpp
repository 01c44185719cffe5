// weakref.ref: made, and asked for what it points to. Its equality and hash end the segment.
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using value::Object;

/// A reference made in the capture is an Object with one attribute of a name no program can spell.
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

/// True if the capture has written to what the source reads from.
bool holder_changed(Trace& trace, const source::Source* source) {
  bool changed = false;
  auto ask = [&](Value* holder, effects::Kind kind) {
    if (holder->source != source->base) return;
    bool by_name = source->kind == source::Kind::Attr || holder->kind == value::Kind::Namespace;
    changed |= by_name ? trace.effects().contains(kind, holder, source->key.get()) : holder->written;
  };
  trace.each_known([&](Value* holder) { ask(holder, effects::Kind::StoreAttr); });
  trace.each_namespace([&](Value* holder) { ask(holder, effects::Kind::StoreGlobal); });
  return changed;
}

/// True if the object at a root is there for the whole segment: the function, what is pinned, a variable that was not
/// assigned.
bool root_stays(Trace& trace, const source::Source* root) {
  if (root->kind == source::Kind::Function || root->kind == source::Kind::Pinned) return true;
  if (root->kind != source::Kind::Local) return false;
  Value* now = trace.inliner->root_local(root->index);
  return now && now->source == root;
}

/// True if everything is still there that was there where the segment began. Nothing from before was changed, no tensor
/// written, whose history may hold objects, and the frame has what it had.
bool holds_its_start(Trace& trace) {
  return trace.effects().empty() && !trace.scope().inputs_written() && trace.inliner->holds_its_start();
}

/// Whether something goes on holding the object: the capture never lets go of real objects, and cannot see one die. A
/// variable, or something on the way to the object, may have been deleted.
bool is_held(Trace& trace, Value* referent) {
  if (trace.inliner->is_in_local(referent)) return true;
  const source::Source* source = referent->source;
  if (!source) return false;
  if (holds_its_start(trace)) return true;
  for (; source->base; source = source->base)
    if (source->kind == source::Kind::WeakTarget || holder_changed(trace, source)) return false;
  return root_stays(trace, source);
}

/// The object it points to, read anew at every call.
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
