// Where a value came from: a hash-consed path from a root, such as a local variable, through attributes and items.
// Other processes can follow it too.
//
//   Pool pool;
//   const Source* p = pool.child(pool.local(0, "self"), Kind::Attr, name);
//   p->print();                    // "L['self'].training", the names PyTorch's own front end uses
//
// Two equal paths of one pool are one pointer. A pool lives as long as the segment that was captured with it.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/ref.h"

namespace gramme::source {

enum class Kind : uint8_t {
#define SOURCE(name, ...) name,
#include "source/sources.def"
#undef SOURCE
};

/// How a source is reached (the column `place` of sources.def).
enum class Place : uint8_t { Root, Child, Ahead, Number };
constexpr Place kPlaces[] = {
#define SOURCE(name, uses, place, ...) Place::place,
#include "source/sources.def"
#undef SOURCE
};
constexpr Place place(Kind kind) { return kPlaces[static_cast<int>(kind)]; }

/// The index of a root in the frame that is `frame` calls outward from the one in which the segment starts.
constexpr int64_t in_frame(int frame, int index) { return int64_t{frame} << 32 | index; }
constexpr int frame_of(int64_t index) { return static_cast<int>(index >> 32); }
constexpr int within_frame(int64_t index) { return static_cast<int>(index & 0xffffffff); }

/// True if the source is a number instead of an object.
constexpr bool is_number(Kind kind) { return place(kind) == Place::Number; }

struct Source {
  Kind kind;
  const Source* base;  // null for roots
  Owned<> key;         // a constant (str, int, …) or, for Pinned, the object
  int64_t index;
  uint32_t id;               // dense in its pool; a base has a smaller id than its children
  size_t path;               // a hash of the whole path, equal in all pools
  mutable Owned<> variable;  // the parameter of the user's function that holds it, or null
  const Source* root() const {
    const Source* s = this;
    while (s->base) s = s->base;
    return s;
  }
  /// As a Python expression over L (locals) and G (globals of the root function); names with ___ stand for what Python
  /// cannot spell.
  std::string print() const;
};

class Pool {
 public:
  const Source* local(int index, PyObject* name, int frame = 0) {
    return intern(Kind::Local, nullptr, name, in_frame(frame, index));
  }
  const Source* stack(int index, int frame = 0) {
    return intern(Kind::Stack, nullptr, nullptr, in_frame(frame, index));
  }
  const Source* function(int frame = 0) { return intern(Kind::Function, nullptr, nullptr, in_frame(frame, 0)); }
  const Source* exception(bool outer = false) { return intern(Kind::Exception, nullptr, nullptr, outer); }
  const Source* module(PyObject* name) { return intern(Kind::Module, nullptr, name, 0); }
  /// Keeps the object alive as long as the pool.
  const Source* pinned(PyObject* object) { return intern(Kind::Pinned, nullptr, object, 0); }
  const Source* child(const Source* base, Kind kind) { return intern(kind, base, nullptr, 0); }
  const Source* child(const Source* base, Kind kind, PyObject* key) { return intern(kind, base, key, 0); }
  const Source* child(const Source* base, Kind kind, int64_t index) { return intern(kind, base, nullptr, index); }
  /// An item of the function's closure; `name` is the free variable's, for printing.
  const Source* closure(const Source* base, int64_t index, PyObject* name) {
    return intern(Kind::Closure, base, name, index);
  }
  /// Another pool's source in this one, on this base and with this key.
  const Source* like(const Source& other, const Source* base, PyObject* key) {
    return intern(other.kind, base, key, other.index);
  }
  /// The same path in this pool.
  const Source* same(const Source* of_other) {
    return like(*of_other, of_other->base ? same(of_other->base) : nullptr, of_other->key.get());
  }
  /// From now on the source is printed as this variable, as if it were a local of the frame.
  static void show_as(const Source* source, PyObject* name) { source->variable = share(name); }
  size_t size() const { return sources_.size(); }
  const Source* at(size_t id) const { return &sources_[id]; }

 private:
  /// Constant keys are compared as constants (source/constant.h), others by identity.
  const Source* intern(Kind kind, const Source* base, PyObject* key, int64_t index);

  std::deque<Source> sources_;  // stable addresses
  std::unordered_multimap<size_t, const Source*> table_;
};

/// The name under which a local or stack slot is printed: a variable's own name in the frame where the segment starts.
Owned<> variable_name(const Source& local);
const char* kind_name(Kind kind);

}  // namespace gramme::source
