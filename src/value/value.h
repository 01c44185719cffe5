// What the interpreter computes with: plain data in the arena of a capture. kinds.def is the list.
//
// A value made from a real object carries its source. `see(trace, v)` (trace/trace.h) is the only way from a Lazy to
// what it stands for, and records the guards; nothing but identity may be asked of a value that was not seen. Values of
// mutable objects hold the object's state as the program would see it now; the real object is never touched.
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
  bool written = false;                    // an existing object with an entry in the effects log
  bool keyed = false;                      // told apart from others by identity, as a key or a member of a set
  int32_t made_by = -1;                    // the call in the effects log whose result it is: it exists when that ran
  const source::Source* source = nullptr;  // where to read it at the next call; null for what the capture made
  PyObject* object = nullptr;              // the real object, if there is one; the trace keeps it alive
  explicit Value(Kind k, const source::Source* s = nullptr, PyObject* o = nullptr) : kind(k), source(s), object(o) {}
  bool existing() const { return source != nullptr; }
};

struct List;

/// value as T if it is one, else null.
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
  Tensor* plain = nullptr;               // what as_subclass() made this of, whose node is this one's, too
  Tensor* inner = nullptr;               // inside a transform: what it wraps; null if nobody asked yet
  Attributes attributes;                 // Python attributes set on it
  // Replay changes its autograd metadata: nothing may write to its memory any more (Fixed), or use it (Closed).
  enum Late : uint8_t { Free, Fixed, Closed } late = Free;
  bool leaf_view = false;     // existing: one that needs a gradient because its base does, and says it is a leaf
  bool special_view = false;  // autograd may refuse to write it, or to use it after its base was written (aten/spec.h)
  bool memory_written = false;  // of one without a base: it or a view of it was written in the segment
  bool retains_grad = false;    // retain_grad() was called on it in the capture
  bool used = false;            // by an operation since it was made or last written
  bool dict_seen = false;       // its Python attributes were asked for or set
  bool hides_nothing = false;   // existing: guarded to have no attribute of its own that hides one of its class
  bool altered = false;  // it is another tensor now in more than its content: its sizes, its metadata of autograd
  size_t made_at = 0;    // root step (Inliner::steps) when it was made or last written; 0: before the segment
};

struct Number : ValueOf<Number> {
  static constexpr Kind kKind = Kind::Number;
  using ValueOf::ValueOf;
  graph::Node* node = nullptr;   // of one over the symbols: null until an operation takes it
  shape::Expr expr = nullptr;    // over the capture's symbols; null if it is data to the capture
  PyObject* function = nullptr;  // what the program computed it by, as the graph has it; null if by no operator
  Value* operands[2] = {};
  PyTypeObject* type = nullptr;  // int, float, bool; `object` is what it is now, or an example
  meta::Interval range;          // what it lies between
};

struct Tuple : ValueOf<Tuple> {
  static constexpr Kind kKind = Kind::Tuple;
  using ValueOf::ValueOf;
  PyTypeObject* type = &PyTuple_Type;
  std::vector<Value*> items;
};

/// Reads existing lists when somebody looks into them.
class ListReader {
 public:
  virtual ~ListReader() = default;
  virtual void read(List* list) = 0;
};

struct List : ValueOf<List> {
  static constexpr Kind kKind = Kind::List;
  using ValueOf::ValueOf;
  ListReader* unread = nullptr;   // of an existing list while nobody looked into it
  std::vector<Value*> own_items;  // of an unread list those that were appended to it, else all
  std::vector<Value*>& items() {
    if (unread) unread->read(this);
    return own_items;
  }
};

struct Dict : ValueOf<Dict> {
  static constexpr Kind kKind = Kind::Dict;
  using ValueOf::ValueOf;
  PyTypeObject* type = &PyDict_Type;  // dict, OrderedDict, defaultdict
  Value* factory = nullptr;           // of a defaultdict
  Table entries;
  bool loaded = true;      // false: an existing dict of which `entries` holds only what was read or written so far
  bool rewritten = false;  // existing: it was cleared or its order changed, so replay assigns the whole content
  struct Erased {
    Value* key;
    size_t hash;
  };
  std::vector<Erased> erased;  // existing: original keys that were deleted, even if they are there again
  bool hidden = false;         // existing: a call in the effects log changes it, so nothing may look into it
  Table absent;                // not loaded: keys known to be missing in the real dict
  Attributes attributes;       // of an OrderedDict: as of Object
};

struct Set : ValueOf<Set> {
  static constexpr Kind kKind = Kind::Set;
  using ValueOf::ValueOf;
  bool frozen = false;
  Table entries;               // changed by the functions of trace/sets.h only
  PyObject* places = nullptr;  // a real set with the same members, which says their order; null: empty, or not known
  bool placed = true;          // false: the order is not known, since it depends on addresses
};

struct Deque : ValueOf<Deque> {
  static constexpr Kind kKind = Kind::Deque;
  using ValueOf::ValueOf;
  std::vector<Value*> items;
  Py_ssize_t maxlen = -1;
  uint32_t moves = 0;  // changes otherwise than item by item, which iterators over it notice
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

/// An iterator made in the capture, or one from before. `step` advances it: the next value, or null at the end. One
/// function per sort of iterator.
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
    Live  // from before: what it gives is read ahead of it (trace/iterators.cpp)
  } sort = Sequence;
  std::vector<Value*> parts;  // what it iterates over, functions it calls
  Py_ssize_t index = 0, stop = 0, increment = 1;
  size_t expected = 0;  // size of a dict or deque when the iteration began
  uint32_t moves = 0;   // of a deque, then
  bool done = false;
  PyObject* maker =
      nullptr;  // of sort Other: called with the parts it makes a real one in the same state; null if none
};

struct Function : ValueOf<Function> {
  static constexpr Kind kKind = Kind::Function;
  using ValueOf::ValueOf;
  PyCodeObject* code = nullptr;
  Value* globals = nullptr;  // Namespace
  PyObject *name = nullptr, *qualname = nullptr;
  Value *defaults = nullptr, *kwdefaults = nullptr, *annotations = nullptr;  // Tuple, Dict, Tuple/Dict; null if none
  Value* annotate = nullptr;    // of a new one: what makes the annotations when they are asked for
  std::vector<Value*> closure;  // Cells
  bool described = false;       // existing: the fields above are filled and guarded
  bool called = false;          // stands in the graph: what its body looks up by name is guarded
  Attributes fields;            // of a new one: __doc__ and __module__, where the program set them
  Attributes attributes;        // its dict: as of Object
  Value* dict = nullptr;        // its InstanceDict once asked for
};

struct Class;

struct Cell : ValueOf<Cell> {
  static constexpr Kind kKind = Kind::Cell;
  using ValueOf::ValueOf;
  Value* content = nullptr;  // null: empty, once read
  bool read = true;          // existing: false until somebody reads or writes it
  Class* dict_of = nullptr;  // made: holds the dict of this class, which the capture made, and no content
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
  Attributes attributes;        // what the capture wrote; of a class made in the capture all of its own
  std::vector<PyObject*> raws;  // for each of them a real object of its type, null for what was deleted
  size_t born = 0;              // made: so many of them it had from the start
  Dict* shown = nullptr;        // existing: what its __dict__ shows, once asked for
  Cell* dict_cell = nullptr;    // made: what its annotations read its dict from
  bool abstract = false;        // made, and _abc_init() ran on it
  PyObject* maker = nullptr;    // made by a function of a library: what makes another one like it
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
    Value* value;  // null: known to be absent, or deleted
    bool written;
  };
  std::unordered_map<PyObject*, Name> names;  // by interned name
};

/// An entry of a traceback.
struct Passed {
  interp::Frame* frame;
  int unit, line;
};

struct Object : ValueOf<Object> {
  static constexpr Kind kKind = Kind::Object;
  using ValueOf::ValueOf;
  PyTypeObject* type = nullptr;
  Attributes attributes;  // instance dict: what was written, in order; for existing ones also what was read
  Attributes slots;
  Value* payload = nullptr;  // what a base in C holds: Dict, List, Tuple, Set, Constant; a Tuple of args for exceptions
  Value *cause = nullptr, *context = nullptr;  // of exceptions
  bool suppress_context = false;
  std::vector<Passed> passed;  // by an exception that was raised, the innermost frame first: its traceback
  bool retraced = false;       // the program gave it a traceback, or threw it into a generator: it is another one
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
  PyTypeObject* start_type = nullptr;  // of this type
  Value* self = nullptr;               // an Object or, in class methods, a Class
};

struct Generator : ValueOf<Generator> {
  static constexpr Kind kKind = Kind::Generator;
  using ValueOf::ValueOf;
  interp::Frame* frame = nullptr;  // null once finished
  bool started = false, running = false;
  const interp::Frame* maker = nullptr;  // the frame that called the function, and the instruction
  const void* made_by_call = nullptr;
  bool on_stack_alone = false;  // nothing refers to it but the stack of the loop over it
  Value* handled = nullptr;     // the exception it was handling when it was suspended
  Value* function = nullptr;
  bool escapes = false;  // it lives on when the segment has run
};

struct Null : ValueOf<Null> {
  static constexpr Kind kKind = Kind::Null;
  using ValueOf::ValueOf;
};

/// The program's own exception, raised symbolically; the program may catch it.
struct UserError {
  Value* exception;  // Object of an exception class
  bool reraise = false;
};

}  // namespace gramme::value
