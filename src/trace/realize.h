// Helpers shared by realize.cpp and realize_containers.cpp only.
#pragma once
#include "base/ref.h"

namespace gramme::trace {

PyTypeObject* type_named(const char* module, const char* name);

/// Types compared by identity, looked up once.
struct KnownTypes {
  PyTypeObject* dtype = type_named("torch", "dtype");
  PyTypeObject* device = type_named("torch", "device");
  PyTypeObject* layout = type_named("torch", "layout");
  PyTypeObject* memory_format = type_named("torch", "memory_format");
  PyTypeObject* size = type_named("torch", "Size");
  PyTypeObject* deque = type_named("collections", "deque");
  PyTypeObject* defaultdict = type_named("collections", "defaultdict");
  PyTypeObject* partial = type_named("functools", "partial");
  PyTypeObject* enum_meta = type_named("enum", "EnumMeta");
};
const KnownTypes& known_types();

}  // namespace gramme::trace
