// An object of a segment as another process, or another call, can find it.
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
    Named,      // path; `digest` says what has to be there
    FromCall,   // what the source reads, `part` of it, and on from there by the steps of `path`
    Bound,      // the C function called `bytes` of the class of the object items[0], or of that class, bound to it
    FrozenSet,  // items
    Tuple,      // items
    Set,        // a set, or as `digest` says a frozenset, of constants: bytes, of a tuple of them in the set's order
    ByIdentity,
  };
  /// What of the object that the source reads.
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

/// A new one, of the kind Set.
Owned<> made_set(const ObjectRef& ref);
/// What has to be the same of an object found by its name or in a call, as text: of a function or code the digest of
/// its code, of a class how its instances are laid out, of a C function the file of its module, of an instance its
/// class and the number or text that it is. What else an instance holds, facts say.
std::string digest_of_object(PyObject* object);
/// True for an instance of a type in C that keeps to itself what it does. Captures know such objects by identity, so no
/// fact tells one from another.
bool is_opaque(PyObject* object);

}  // namespace gramme::portable
