// Classes as the program sees them: members along the MRO, guarded, with what the program wrote, and the classes that
// it makes.
//
//   classes.lookup(type, name);            // the raw object, as _PyType_Lookup finds it
//   classes.attribute(type, name);         // the same as a value
//   classes.store(cls, name, value, raw);  // later lookups in the type or its subclasses see it
//
// Nothing is taken back: writes live in the value::Class, and the real class is not touched.
#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "guards/fact_list.h"
#include "trace/confined.h"
#include "trace/known_objects.h"
#include "trace/values.h"

namespace gramme::trace {

class Classes {
 public:
  Classes(Values& values, KnownObjects& objects, guards::FactList& facts, const Confinement& confinement,
          source::Pool& pool)
      : values_(values), objects_(objects), facts_(facts), confinement_(confinement), pool_(pool) {}
  Classes(const Classes&) = delete;

  // ---- looking up
  /// The raw object along the MRO (borrowed, null if absent); guarded for heap types.
  PyObject* lookup(PyTypeObject* type, PyObject* name);
  /// The same as a value, with a source relative to the type.
  Value* attribute(PyTypeObject* type, PyObject* name);
  /// Guards the type's MRO: `type.__bases__` may be assigned.
  void guard_mro(PyTypeObject* type);
  /// PyType_IsSubtype, guarded.
  bool is_subtype(PyTypeObject* type, PyTypeObject* base);
  /// The member of a class under a name: a real object of the same type, and the value.
  struct Entry {
    PyObject* raw = nullptr;
    Value* value = nullptr;
  };
  /// The member of this class alone, not of its bases, as the program left it; not guarded.
  Entry own_entry(PyTypeObject* type, PyObject* name);
  /// The content of cls.__dict__: raw members by name, as the program left them.
  value::Dict* names_in(value::Class* cls);

  // ---- names
  /// Guards the name of a class or function that the program reads; source::Kind::Name says which name.
  void guard_name(PyObject* named, const Source* source, int64_t index);
  /// Guards those names in a text that belong to classes and functions of this capture.
  void guard_names_in(std::string_view text);

  // ---- writing
  /// A class that the program makes: the real type has its layout, the attributes are the content of its namespace.
  value::Class* add(Owned<> type, value::Attributes attributes, std::vector<PyObject*> raws);
  bool is_made(PyTypeObject* type) const { return facts_.is_exempt(type); }
  /// Writes an attribute. `raw` is a real object of the value's type; both null delete. True if the attribute was
  /// deleted before: it moves to the end of the class's names.
  bool store(value::Class* cls, PyObject* name, Value* value, PyObject* raw);
  bool any_written() const { return !written_.empty(); }

 private:
  value::Class* written_class(PyTypeObject* type) const;
  bool find_written(PyTypeObject* type, PyObject* name, Entry& found);
  PyObject* real_lookup(PyTypeObject* type, PyObject* name);
  void show(value::Class* cls, const value::Attribute& written);

  Values& values_;
  KnownObjects& objects_;
  guards::FactList& facts_;
  const Confinement& confinement_;
  source::Pool& pool_;
  std::unordered_map<uint64_t, PyObject*> lookups_;
  std::vector<value::Class*> written_;  // classes written to or made
};

}  // namespace gramme::trace
