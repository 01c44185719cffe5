// The description of a segment's object by which another call or process finds it.
#pragma once
#include <string>
#include <vector>

#include "base/ref.h"
#include "portable/path.h"
#include "source/source.h"

namespace gramme::portable {

enum class Unportable : uint8_t {
#define UNPORTABLE(name, ...) name,
#include "portable/unportable.def"
#undef UNPORTABLE
};
const char* unportable_name(Unportable reason);
const char* because(Unportable reason);

struct ObjectRef {
  enum class Kind : uint8_t {
    Constant,   // bytes (canonical.h)
    Named,      // path; `digest` is that of the object to find
    FromCall,   // `part` of what the source reads, then the steps of `path`
    Bound,      // a C function named `bytes`, bound to the object or class items[0]
    FrozenSet,  // items
    Tuple,      // items
    Set,        // a set (or a frozenset: see `digest`) of constants: bytes of a tuple of them in the set's order
    ByIdentity,
  };
  /// The part of the object that the source reads.
  enum class Part : uint8_t { Itself, Type, Code };

  Kind kind = Kind::ByIdentity;
  std::string bytes = {};
  Path path = {};
  std::string digest = {};
  uint32_t source = 0;  // its number in the pool
  Part part = Part::Itself;
  std::vector<ObjectRef> items = {};
  Unportable reason = Unportable::Instance;

  bool is_portable() const;
  /// "constant 0.5", "torch.nn.functional:relu", "type of L['x']" …
  std::string print(const source::Pool& pool) const;
};

/// A new set for a description of the kind Set.
Owned<> made_set(const ObjectRef& ref);
/// What an object found by name or in a call must have in common with the original, as text. Functions and code: the
/// code's digest. Classes: bases and layout. C functions: the file of their module. Instances: the class and a builtin
/// value inside; guards check everything else.
std::string digest_of_object(PyObject* object);
/// True for an instance of a C type with hidden state. Guards compare such objects by identity only, so equivalent ones
/// cannot be recognised.
bool is_opaque(PyObject* object);

}  // namespace gramme::portable
