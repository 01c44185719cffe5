// Values, the objects of symbolic execution: plain data in the arena of a capture. kinds.def lists the kinds.
//
// A value made from a real object carries its source. Only `see()` (trace/values.h) leads from a Lazy to what it
// stands for, and it records the guards. A value that was not seen may be asked for its identity only. Values of
// mutable objects hold the state that the program would see now; the real object is never touched.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "base/ref.h"
#include "meta/interval.h"
#include "meta/record.h"
#include "source/source.h"
#include "value/attributes.h"
#include "value/table.h"

namespace gramme::graph {
struct Node;
}
namespace gramme::interp {
struct Frame;
}

namespace gramme::value {

enum class Kind : uint8_t {
#define KIND(name, properties, answers, modelled, type, rebuilt, text) name,
#include "value/kinds.def"
#undef KIND
};
const char* kind_name(Kind kind);
/// The columns of kinds.def.
bool is_mutable(Kind kind);
bool owns_dict(Kind kind);

struct Value {
  Kind kind;
  bool written = false;                    // existing: has an entry in the effects log
  bool keyed = false;                      // used by identity, as a key or a member of a set
  int32_t made_by = -1;                    // result of this call in the effects log: exists once the call ran
  const source::Source* source = nullptr;  // where a later call reads it; null if the capture made it
  PyObject* object = nullptr;              // the real object, if there is one; the trace keeps it alive
  explicit Value(Kind k, const source::Source* s = nullptr, PyObject* o = nullptr) : kind(k), source(s), object(o) {}
  bool existing() const { return source != nullptr; }
};

struct List;

/// The value as T if it is one, else null.
template <class T>
T* as(Value* value) {
  return value->kind == T::kKind ? static_cast<T*>(value) : nullptr;
}
template <class T>
struct ValueOf : Value {
  explicit ValueOf(const source::Source* s = nullptr, PyObject* o = nullptr) : Value(T::kKind, s, o) {}
};

struct Lazy : ValueOf<Lazy> {
  static constexpr Kind kKind = Kind::Lazy;
  using ValueOf::ValueOf;
  Value* target = nullptr;  // once seen
};

struct Constant : ValueOf<Constant> {
  static constexpr Kind kKind = Kind::Constant;
  using ValueOf::ValueOf;
};

struct Tensor : ValueOf<Tensor> {
  static constexpr Kind kKind = Kind::Tensor;
  using ValueOf::ValueOf;
  graph::Node* node = nullptr;           // null for an input that no operation used yet
  const meta::Record* record = nullptr;  // as it is now
  Tensor* base = nullptr;                // shares storage with it (views)
  bool differentiable = false;           // a view to autograd too, unlike what detach() gives
  std::vector<Tensor*> views;            // differentiable ones of it
  Tensor* plain = nullptr;               // as_subclass() or _make_subclass() made it of this; both have one node
  graph::Node* classed = nullptr;  // with `plain`: the node that returns it in its class; null: replay sets the class
  Tensor* inner = nullptr;         // inside a transform: the wrapped tensor, once requested
  Attributes attributes;           // Python attributes set on it
  // Autograd may refuse to write it, or to use it after its base was written (aten/spec.h).
  bool special_view = false;
  bool leaf_view = false;      // existing: requires a gradient because its base does, yet is a leaf
  bool retains_grad = false;   // retain_grad() was called on it in the capture
  bool used = false;           // by an operation since it was made or last written
  bool dict_seen = false;      // its Python attributes were asked for or set
  bool hides_nothing = false;  // existing: guarded to have no attribute of its own that hides one of its class
  bool altered = false;        // more than its content has changed: sizes or autograd metadata
  size_t made_at = 0;          // root step (Inliner::steps) when it was made or last written; 0: before the segment
};

struct Number : ValueOf<Number> {
  static constexpr Kind kKind = Kind::Number;
  using ValueOf::ValueOf;
  graph::Node* node = nullptr;   // null until an operation takes it, if over symbols
  shape::Expr expr = nullptr;    // over the capture's symbols; null if it is data to the capture
  PyObject* function = nullptr;  // the operator in the graph that computed it, or null
  Value* operands[2] = {};
  PyTypeObject* type = nullptr;  // int, float, bool; `object` is the present value or an example
  meta::Interval range;          // bounds of its value
};

struct Tuple : ValueOf<Tuple> {
  static constexpr Kind kKind = Kind::Tuple;
  using ValueOf::ValueOf;
  PyTypeObject* type = &PyTuple_Type;
  std::vector<Value*> items;
};

/// Reads an existing list's items at the first look.
class ListReader {
 public:
  virtual ~ListReader() = default;
  virtual void read(List* list) = 0;
};

struct List : ValueOf<List> {
  static constexpr Kind kKind = Kind::List;
  using ValueOf::ValueOf;
  ListReader* unread = nullptr;   // existing: set until the first look
  std::vector<Value*> own_items;  // all items; only the appended ones of an unread list
  std::vector<Value*>& items() {
    if (unread) unread->read(this);
    return own_items;
  }
};

struct Dict : ValueOf<Dict> {
  static constexpr Kind kKind = Kind::Dict;
  using ValueOf::ValueOf;
  PyTypeObject* type = &PyDict_Type;  // dict, OrderedDict, defaultdict
  Value* factory = nullptr;           // defaultdict only
  Table entries;
  bool loaded = true;      // false: existing, and `entries` holds only what was read or written
  bool rewritten = false;  // existing: cleared or reordered, so replay assigns the whole content
  struct Erased {
    Value* key;
    size_t hash;
  };
  std::vector<Erased> erased;  // existing: original keys that were deleted, even if stored again
  bool hidden = false;         // existing: a call in replay changes it, so it must not be read
  Table absent;                // not loaded: keys known to be missing in the real dict
  Attributes attributes;       // OrderedDict only: like Object's
};

struct Set : ValueOf<Set> {
  static constexpr Kind kKind = Kind::Set;
  using ValueOf::ValueOf;
  bool frozen = false;
  Table entries;               // changed by the functions of trace/sets.h only
  PyObject* places = nullptr;  // a real set with the same members and order; null: empty, or unknown
  bool placed = true;          // false: the order is unknown, since it depends on addresses
};

struct Deque : ValueOf<Deque> {
  static constexpr Kind kKind = Kind::Deque;
  using ValueOf::ValueOf;
  std::vector<Value*> items;
  Py_ssize_t maxlen = -1;
  uint32_t moves = 0;  // count of bulk changes, which iterators over it notice
};

struct Slice : ValueOf<Slice> {
  static constexpr Kind kKind = Kind::Slice;
  using ValueOf::ValueOf;
  Value *start = nullptr, *stop = nullptr, *step = nullptr;
};

struct View : ValueOf<View> {
  static constexpr Kind kKind = Kind::View;
  using ValueOf::ValueOf;
  enum Which : uint8_t { Keys, Values, Items } which = Keys;
  Value* dict = nullptr;  // Dict or InstanceDict
};

/// An iterator made in the capture, or an existing one. protocol::step() advances it, with one function per sort.
struct Iterator : ValueOf<Iterator> {
  static constexpr Kind kKind = Kind::Iterator;
  using ValueOf::ValueOf;
  enum Sort : uint8_t {
    Sequence,
    Range,
    Entries,
    Reversed,
    Enumerate,
    Zip,
    Map,
    Filter,
    Chain,
    Repeat,
    Count,
    Cycle,
    Islice,
    StarMap,
    Accumulate,
    TakeWhile,
    DropWhile,
    CallUntil,
    Other,
    Live  // existing: items are read without advancing it (trace/iterators.cpp)
  } sort = Sequence;
  std::vector<Value*> parts;  // its iterables and the functions it calls
  Py_ssize_t index = 0, stop = 0, increment = 1;
  size_t expected = 0;  // size of the dict or deque at the start
  uint32_t moves = 0;   // deque: its count of moves at the start
  bool done = false;
  PyObject* maker = nullptr;  // sort Other: makes a real iterator in this state from the parts; or null
};

struct Function : ValueOf<Function> {
  static constexpr Kind kKind = Kind::Function;
  using ValueOf::ValueOf;
  PyCodeObject* code = nullptr;
  Value* globals = nullptr;  // Namespace
  PyObject *name = nullptr, *qualname = nullptr;
  Value *defaults = nullptr, *kwdefaults = nullptr, *annotations = nullptr;  // Tuple, Dict, Tuple/Dict; null if none
  Value* annotate = nullptr;    // new: function that makes the annotations on demand
  std::vector<Value*> closure;  // Cells
  bool described = false;       // existing: the fields above are filled and guarded
  bool called = false;          // called in the graph: names that its body looks up are guarded
  Attributes fields;            // new: __doc__ and __module__, if the program set them
  Attributes attributes;        // its dict: as of Object
  Value* dict = nullptr;        // its InstanceDict once asked for
};

struct Class;

struct Cell : ValueOf<Cell> {
  static constexpr Kind kKind = Kind::Cell;
  using ValueOf::ValueOf;
  Value* content = nullptr;  // null: empty, if `read`
  bool read = true;          // existing: false until it is read or written
  Class* dict_of = nullptr;  // holds the dict of this class, which the capture made
};

struct Method : ValueOf<Method> {
  static constexpr Kind kKind = Kind::Method;
  using ValueOf::ValueOf;
  Value *function = nullptr, *self = nullptr;
};

struct Builtin : ValueOf<Builtin> {
  static constexpr Kind kKind = Kind::Builtin;
  using ValueOf::ValueOf;
};

struct BuiltinMethod : ValueOf<BuiltinMethod> {
  static constexpr Kind kKind = Kind::BuiltinMethod;
  using ValueOf::ValueOf;  // object: the method descriptor or slot wrapper
  Value* self = nullptr;
};

struct Class : ValueOf<Class> {
  static constexpr Kind kKind = Kind::Class;
  using ValueOf::ValueOf;
  Attributes attributes;        // written by the capture; all, for a class that it made
  std::vector<PyObject*> raws;  // for each attribute a real object of its type; null: deleted
  size_t born = 0;              // made: number of initial attributes
  Dict* shown = nullptr;        // existing: content of its __dict__, once requested
  Cell* dict_cell = nullptr;    // made: cell from which its annotations read its dict
  bool abstract = false;        // made: _abc_init() ran on it
  PyObject* maker = nullptr;    // made by a library function: callable that makes another one
  PyTypeObject* type() const { return reinterpret_cast<PyTypeObject*>(object); }
};

struct Module : ValueOf<Module> {
  static constexpr Kind kKind = Kind::Module;
  using ValueOf::ValueOf;
  Value* names = nullptr;  // its Namespace
};

struct Namespace : ValueOf<Namespace> {
  static constexpr Kind kKind = Kind::Namespace;
  using ValueOf::ValueOf;  // object: the dict
  struct Name {
    Value* value;  // null: absent or deleted
    bool written;
  };
  std::unordered_map<PyObject*, Name> names;  // by interned name
};

/// A traceback entry.
struct Passed {
  interp::Frame* frame;
  int unit, line;
};

struct Object : ValueOf<Object> {
  static constexpr Kind kKind = Kind::Object;
  using ValueOf::ValueOf;
  PyTypeObject* type = nullptr;
  Attributes attributes;  // instance dict, in order: written and, for existing ones, read
  Attributes slots;
  Value* payload = nullptr;  // content of a builtin base: Dict, List, Tuple, Set, Constant; exceptions: args
  Value *cause = nullptr, *context = nullptr;  // exceptions only
  bool suppress_context = false;
  std::vector<Passed> passed;  // exceptions: traceback, innermost frame first
  bool retraced = false;       // the traceback differs: set by the program, or thrown into a generator
  Value* dict = nullptr;       // its InstanceDict once asked for
};

struct InstanceDict : ValueOf<InstanceDict> {
  static constexpr Kind kKind = Kind::InstanceDict;
  using ValueOf::ValueOf;
  Value* owner = nullptr;  // Object or Function
};

struct Partial : ValueOf<Partial> {
  static constexpr Kind kKind = Kind::Partial;
  using ValueOf::ValueOf;
  Value* function = nullptr;
  std::vector<Value*> args;
  Attributes keywords;
  Attributes attributes;  // as of Object
};

struct Super : ValueOf<Super> {
  static constexpr Kind kKind = Kind::Super;
  using ValueOf::ValueOf;
  PyTypeObject* type = nullptr;        // search the MRO after this one
  PyTypeObject* start_type = nullptr;  // the type whose MRO is searched
  Value* self = nullptr;               // an Object or, in class methods, a Class
};

struct Generator : ValueOf<Generator> {
  static constexpr Kind kKind = Kind::Generator;
  using ValueOf::ValueOf;
  interp::Frame* frame = nullptr;  // null when finished
  bool started = false, running = false;
  const interp::Frame* maker = nullptr;  // the calling frame and instruction
  const void* made_by_call = nullptr;
  bool on_stack_alone = false;  // only the stack of the loop over it refers to it
  Value* handled = nullptr;     // the exception handled when it was suspended
  Value* function = nullptr;
  bool escapes = false;  // outlives the segment
};

struct Null : ValueOf<Null> {
  static constexpr Kind kKind = Kind::Null;
  using ValueOf::ValueOf;
};

/// The program's exception, raised symbolically; the program may catch it.
struct UserError {
  Value* exception;  // Object of an exception class
  bool reraise = false;
};

}  // namespace gramme::value
