// Class attributes: lookups along the MRO with their guards, writes by the program, and classes that the program makes.
#include "trace/classes.h"

#include <unordered_set>

#include "base/type_dict.h"
#include "cpython/objects.h"
#include "plan/walk.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {
PyTypeObject* mro_item(PyTypeObject* type, Py_ssize_t i) {
  return reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
}
}  // namespace

// ---- looking up

PyObject* Classes::lookup(PyTypeObject* type, PyObject* name) {
  Entry written;
  return find_written(type, name, written) ? written.raw : real_lookup(type, name);
}

PyObject* Classes::real_lookup(PyTypeObject* type, PyObject* name) {
  uint64_t key = reinterpret_cast<uint64_t>(type) * 0x9E3779B97F4A7C15ull ^ reinterpret_cast<uint64_t>(name);
  auto known = lookups_.find(key);
  if (known != lookups_.end()) return known->second;
  PyObject* found = cpython::type_lookup(type, name);
  lookups_[key] = found;
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return found;
  if (is_made(type)) {  // only its bases can differ at the next call
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
      lookup(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)), name);
    return found;
  }
  const Source* source = pool_.child(pool_.pinned(reinterpret_cast<PyObject*>(type)), SK::TypeAttr, name);
  if (!found)
    facts_.add_absent(source);
  else if (Py_TYPE(found)->tp_descr_get || PyType_Check(found) || PyCFunction_Check(found))
    facts_.add({source, guards::Kind::Identity, share(found)});
  else
    facts_.add_type(source, Py_TYPE(found));  // no descriptor, which might stand before what the instance has
  return found;
}

void Classes::guard_mro(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_made(type)) return;
  const Source* cls = pool_.pinned(reinterpret_cast<PyObject*>(type));
  facts_.add({pool_.child(cls, SK::Mro), guards::Kind::Identity, share(type->tp_mro)});
}

bool Classes::is_subtype(PyTypeObject* type, PyTypeObject* base) {
  if (type != base) guard_mro(type);
  return PyType_IsSubtype(type, base);
}

Value* Classes::attribute(PyTypeObject* type, PyObject* name) {
  Entry written;
  if (find_written(type, name, written)) return written.value;
  PyObject* found = real_lookup(type, name);
  if (!found) return nullptr;
  bool described = Py_TYPE(found)->tp_descr_get || PyType_Check(found) || PyCFunction_Check(found);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) ||
      (described && !(PyFunction_Check(found) && cpython::as_function(found)->func_closure)))
    return objects_.pinned(found);
  Value* result = values_.wrap(found, pool_.child(pool_.pinned(reinterpret_cast<PyObject*>(type)), SK::TypeAttr, name));
  if (confinement_.any()) confinement_.reads(nullptr, result, objects_.pinned(reinterpret_cast<PyObject*>(type)), name);
  return result;
}

// ---- names

void Classes::guard_name(PyObject* named, const Source* source, int64_t index) {
  PyObject** address = plan::name_address(named, index);
  if (!address || (PyType_Check(named) && is_made(reinterpret_cast<PyTypeObject*>(named)))) return;
  const Source* name = pool_.child(source, SK::Name, index);
  if (!*address) return facts_.add_absent(name);
  auto kind = PyUnicode_CheckExact(*address) || *address == Py_None ? guards::Kind::Constant : guards::Kind::Identity;
  facts_.add({name, kind, share(*address)});
}

/// Every type whose name may be in the text has a fact already, since making or looking up a value of it guards the
/// type.
void Classes::guard_names_in(std::string_view text) {
  auto contains = [&](PyObject* name) {
    const char* utf8 = name ? PyUnicode_AsUTF8(name) : nullptr;
    if (!utf8) PyErr_Clear();
    return utf8 && text.find(utf8) != std::string_view::npos;
  };
  auto guard_contained = [&](PyObject* named, auto source) {
    for (int64_t index : {0, 1})
      if (PyObject** address = plan::name_address(named, index); address && contains(*address))
        guard_name(named, source(), index);
  };
  std::unordered_set<PyObject*> types;
  for (const guards::Fact& fact : facts_.all()) {
    const Source* root = fact.source;
    while (root->base) root = root->base;
    for (PyObject* object : {root->kind == SK::Pinned ? root->key.get() : nullptr, fact.object.get()})
      if (object && PyType_Check(object)) types.insert(object);
  }
  for (PyObject* type : types) guard_contained(type, [&] { return pool_.pinned(type); });
  std::vector<Function*> functions;
  objects_.each([&](Value* value) {
    auto* function = as<Function>(value);
    if (function && function->existing() && function->described) functions.push_back(function);
  });
  for (Function* function : functions) guard_contained(function->object, [&] { return function->source; });
}

// ---- what the program wrote

Class* Classes::written_class(PyTypeObject* type) const {
  for (Class* cls : written_)
    if (cls->type() == type) return cls;
  return nullptr;
}

/// Searches the MRO for a member that the program wrote, before the real one. A real member found past a deleted one is
/// guarded.
bool Classes::find_written(PyTypeObject* type, PyObject* name, Entry& found) {
  if (written_.empty()) return false;
  bool deleted = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyTypeObject* base = mro_item(type, i);
    Class* cls = written_class(base);
    if (Attribute* written = cls ? find(cls->attributes, name) : nullptr) {
      if (written->value) {
        found = {cls->raws[static_cast<size_t>(written - cls->attributes.data())], written->value};
        return true;
      }
      deleted = true;
      continue;
    }
    bool there = PyDict_GetItem(type_dict(base), name) != nullptr;
    if (!deleted && there) return false;
    if (!deleted) continue;
    found = {lookup(base, name), attribute(base, name)};
    if (found.raw) return true;
  }
  return deleted;
}

Classes::Entry Classes::own_entry(PyTypeObject* type, PyObject* name) {
  Class* cls = written_class(type);
  if (Attribute* written = cls ? find(cls->attributes, name) : nullptr)
    return {cls->raws[static_cast<size_t>(written - cls->attributes.data())], written->value};
  PyObject* raw = PyDict_GetItem(type_dict(type), name);
  return {raw, raw ? objects_.pinned(raw) : nullptr};
}

Class* Classes::add(Owned<> type, Attributes attributes, std::vector<PyObject*> raws) {
  PyObject* object = values_.keep(std::move(type));
  auto* result = values_.make<Class>(nullptr, object);
  result->attributes = std::move(attributes);
  result->raws = std::move(raws);
  result->born = result->attributes.size();
  written_.push_back(result);
  facts_.exempt(result->type());
  objects_.add(object, result);
  return result;
}

bool Classes::store(Class* cls, PyObject* name, Value* value, PyObject* raw) {
  if (!written_class(cls->type())) written_.push_back(cls);
  Attribute* known = find(cls->attributes, name);
  bool anew = known && !known->value && value;  // deleted and set again: it moves to the end
  if (anew) {
    auto at = known - cls->attributes.data();
    cls->attributes.erase(cls->attributes.begin() + at);
    cls->raws.erase(cls->raws.begin() + at);
    if (static_cast<size_t>(at) < cls->born) --cls->born;
    known = nullptr;
  }
  if (known) {
    cls->raws[static_cast<size_t>(known - cls->attributes.data())] = raw;
    known->value = value;
  } else {
    cls->attributes.push_back({name, value});
    cls->raws.push_back(raw);
  }
  if (cls->shown) show(cls, {name, value});
  return anew;
}

void Classes::show(Class* cls, const Attribute& written) {
  if (!written.value) cannot(Reason::AttributeUnknown, "the __dict__ of a class from which an attribute was deleted");
  cls->shown->entries.set(values_.constant(written.name), written.value);
}

Dict* Classes::names_in(Class* cls) {
  if (!cls->existing()) cannot(Reason::AttributeUnknown, "the __dict__ of a class made in the capture");
  if (cls->shown) return cls->shown;
  // Later versions keep the names of their own types in the interpreter, where no type leads to; they never change.
  PyObject* names = type_dict(cls->type());
  const bool is_in_type = cpython::instance_dict_if_any(cls->object) == names;
  cls->shown = values_.make<Dict>(is_in_type ? pool_.child(cls->source, SK::InstanceDict) : pool_.pinned(names), names);
  cls->shown->loaded = false;
  for (const Attribute& written : cls->attributes) show(cls, written);
  return cls->shown;
}

}  // namespace gramme::trace
