// Python's operations on objects, applied to values. Every function sees its operands itself. It returns a value,
// throws UserError (the program's exception, raised symbolically), or throws CannotCapture.
#pragma once
#include "torch/names.h"
#include "trace/trace.h"

namespace gramme::protocol {

using trace::Args;
using trace::Trace;
using value::Value;

// ---- attributes (attributes.cpp, by kind of value in attributes.h)
Value* get_attribute(Trace& trace, Value* object, PyObject* name);   // raises AttributeError
Value* find_attribute(Trace& trace, Value* object, PyObject* name);  // null instead of AttributeError
void set_attribute(Trace& trace, Value* object, PyObject* name, Value* value);
void delete_attribute(Trace& trace, Value* object, PyObject* name);
/// object.__getattribute__ and object.__setattr__ themselves.
Value* generic_get_attribute(Trace& trace, Value* object, PyObject* name);              // null if there is none
void generic_set_attribute(Trace& trace, Value* object, PyObject* name, Value* value);  // null value deletes
/// type.__setattr__ itself; a null value deletes.
void generic_set_class_attribute(Trace& trace, value::Class* cls, PyObject* name, Value* value);
/// A special method of the type (`__len__`), bound; null if the type has none. Instance attributes are not consulted.
Value* special_method(Trace& trace, Value* object, PyObject* name);
/// Binds a class attribute to an instance (null for access through the class), as descriptors do.
Value* bind(Trace& trace, PyObject* found, Value* as_value, Value* object, PyTypeObject* type);

/// Attribute access of tensors, set by the builtins room. `get` returns null if there is no such attribute.
struct TensorAttributes {
  Value* (*get)(Trace& trace, value::Tensor* tensor, PyObject* name) = nullptr;
  void (*set)(Trace& trace, value::Tensor* tensor, PyObject* name, Value* value) = nullptr;  // null value deletes
};
void set_tensor_attributes(TensorAttributes attributes);
/// Models the call of a tensor wrapper class; null for other classes. Set by the builtins room.
using WrapperMaker = Value* (*)(Trace& trace, value::Class* cls, const Args& args);
void set_wrapper_maker(WrapperMaker maker);
/// Models a C function's call under torch function modes, or with tensors whose class is asked; null if neither
/// applies. Set by the builtins room.
using ModeDispatch = Value* (*)(Trace& trace, PyObject* callable, const Args& args);
void set_mode_dispatch(ModeDispatch dispatch);

/// Models calls of an operator that takes functions, for all instances of its class. Set by the hop room.
using OperatorCall = Value* (*)(Trace& trace, value::Object* op, const Args& args);
void set_operator_call(PyTypeObject* type, OperatorCall call);

// ---- calls (call.cpp)
Value* call(Trace& trace, Value* callee, const Args& args);
Value* call(Trace& trace, Value* callee, std::initializer_list<Value*> args);
Value* call_method(Trace& trace, Value* object, PyObject* name, std::initializer_list<Value*> args);
/// Calls with a sequence and a mapping, as f(*args, **kwargs) does.
Value* call_with(Trace& trace, Value* callee, const std::vector<Value*>& positional, const value::Attributes& keywords);

// ---- types (types.cpp)
/// type(x) of any seen value.
PyTypeObject* type_of(Value* seen);
Value* class_value(Trace& trace, PyTypeObject* type);
/// The builtin container in an instance of a subclass of dict, list, tuple or set; else the value itself. Seen.
Value* payload_of(Trace& trace, Value* value);

// ---- instances (instances.cpp)
bool isinstance(Trace& trace, Value* object, Value* classinfo);
bool issubclass(Trace& trace, Value* cls, Value* classinfo);
bool callable(Trace& trace, Value* object);

// ---- construction (construct.cpp, classes.cpp)
/// A new instance: metaclass __call__, __new__, __init__.
Value* construct(Trace& trace, value::Class* cls, const Args& args);
/// Makes what tp_new of the class's C base makes: an Object (with a payload for dict, list, tuple, set, exceptions), or
/// a Tuple for namedtuples.
Value* allocate(Trace& trace, value::Class* cls, const Args& args);
/// type.__new__(meta, name, bases, names, **keywords).
Value* make_class(Trace& trace, PyTypeObject* meta, Value* name, const std::vector<Value*>& bases, value::Dict* names,
                  const value::Attributes& keywords);
/// classmethod(function) or staticmethod(function).
Value* method_descriptor(Trace& trace, PyTypeObject* type, Value* function);

// ---- operators (operators.cpp, compare.cpp, truth.cpp, contains.cpp, identity.cpp)
enum class Unary { Negative, Positive, Invert, Not };
Value* unary(Trace& trace, Unary op, Value* operand);
/// `op` is CPython's NB_* number; in-place variants included (NB_INPLACE_ADD …).
Value* binary(Trace& trace, int op, Value* left, Value* right);
Value* compare(Trace& trace, int op, Value* left, Value* right);  // Py_LT … Py_GE
bool equal(Trace& trace, Value* left, Value* right);              // identity, then truth of ==, as in containers
bool truth(Trace& trace, Value* operand);
/// True if the function is the method that the operator or comparison would call on these operands.
bool answers_operator(Trace& trace, int op, Value* left, Value* right, PyObject* function);
bool answers_comparison(Trace& trace, int op, Value* left, Value* right, PyObject* function);
Value* contains(Trace& trace, Value* container, Value* item);  // a boolean Constant
bool same(Trace& trace, Value* left, Value* right);            // is

// ---- items (items.cpp, length.cpp, keys.cpp)
Value* get_item(Trace& trace, Value* object, Value* key);
void set_item(Trace& trace, Value* object, Value* key, Value* value);
void delete_item(Trace& trace, Value* object, Value* key);
Py_ssize_t length(Trace& trace, Value* object);
/// A value as a key of a dict or set, seen all the way down. TypeError if it is unhashable; ends the segment if a class
/// has its own equality.
Value* table_key(Trace& trace, Value* key);
/// The same for one lookup in a table, or one change of it, where classes may have their own equality: runs their
/// __hash__, and __eq__ for keys of that hash. Returns the table's equal key, if there is one.
Value* key_in(Trace& trace, value::Table& table, Value* key);
Value* key_in(Trace& trace, value::Dict* dict, Value* key);
/// An integer index (int, bool, __index__ of constants); raises TypeError otherwise.
Py_ssize_t index(Trace& trace, Value* value);

// ---- iteration (iterate.cpp)
Value* get_iterator(Trace& trace, Value* iterable);
/// The next value, or null at the end.
Value* next(Trace& trace, Value* iterator);
/// All items; for lists and tuples a copy of their items.
std::vector<Value*> items_of(Trace& trace, Value* iterable);
/// The items as tuple() and calls with `*iterable` collect them.
std::vector<Value*> items_of_tuple(Trace& trace, Value* iterable);
/// Asks an object of the program's class for its length, as list() and tuple() do; null if it has none.
Value* length_hint(Trace& trace, Value* iterable);

// ---- text (text.cpp)
Value* to_str(Trace& trace, Value* object);  // str(x)
Value* to_repr(Trace& trace, Value* object);
Value* format(Trace& trace, Value* object, Value* spec);  // spec may be null

// ---- exceptions (raise.cpp)
/// Raises type(message) symbolically.
[[noreturn]] void raise(Trace& trace, PyObject* type, const std::string& message);
[[noreturn]] void raise(Trace& trace, Value* exception);  // instance or class, as `raise x`
/// Turns the Python error that is set (from folding a constant operation) into the program's exception.
[[noreturn]] void raise_current(Trace& trace);
/// A new exception object with its arguments.
value::Object* make_exception(Trace& trace, PyTypeObject* type, std::vector<Value*> args);
bool matches(Trace& trace, Value* exception, Value* classinfo);  // `except classinfo`

// ---- models of C functions (models.cpp)
/// A model: what calling a C function, method descriptor or type does to values. For methods args[0] is self.
using Model = Value* (*)(Trace& trace, const Args& args);
/// The arguments that a model is written for. Self of a method is always an instance of the method's type or a
/// subclass.
enum class Takes : uint8_t {
  Unstated,
  Plain,  // values of builtin types; an instance of a subclass (of int, tuple …) ends the
          // segment
  Asked,  // any: the model asks classes for the same things as the C function
};
/// A callable model, which ends the segment for arguments it is not written for.
struct Modelled {
  PyObject* callable = nullptr;
  Model model = nullptr;
  Takes takes = Takes::Unstated;
  explicit operator bool() const { return model != nullptr; }
  Value* operator()(Trace& trace, const Args& args) const;
};
/// Adds a model for the life of the process; the object is kept alive.
void add_model(PyObject* callable, Model model, Takes takes = Takes::Unstated);
Modelled find_model(PyObject* callable);
/// Adds a model for an attribute of a module or type; does nothing if this Python lacks it.
void add_model(const char* module, const char* qualified_name, Model model, Takes takes = Takes::Unstated);
std::vector<Modelled> all_models();
/// A model of a Python function found by its code's file and name: for functions made by a call, or imported later.
using FunctionModel = Value* (*)(Trace& trace, value::Function* function, const Args& args);
void add_function_model(const char* file_suffix, const char* qualified_name, FunctionModel model);
void add_function_model(of_torch::Code code, FunctionModel model);
FunctionModel find_function_model(PyCodeObject* code);
/// Declares a Python function of torch that torch function modes never intercept, nor anything its model does.
void add_unseen(PyObject* function);
bool is_unseen(PyObject* function);
/// The model of functions that are traced, but in which no segment may end.
Value* traced_whole(Trace& trace, value::Function* function, const Args& args);
/// Declares a pure C function: it is called for real on constants and containers of them; otherwise the segment ends.
void add_pure(PyObject* callable);
void add_pure(const char* module, const char* qualified_name);
bool is_pure(PyObject* callable);
/// Calls a pure function on concrete arguments; its exception becomes the program's. Null if an argument is not
/// concrete.
Value* fold(Trace& trace, PyObject* callable, const Args& args);
/// How a Python function is handled; decided before inlining. `Fold`: declared constant by its author, so it is called
/// in the capture. `Substituted`: the program gave a function to trace in its place
/// (torch.compiler.substitute_in_graph).
enum class Treatment { Inline, InGraph, RunForReal, Fold, Substituted };
using Classifier = Treatment (*)(PyObject* callable);
void set_classifier(Classifier classifier);
Treatment treatment(PyObject* callable);

/// Checks a model's number of arguments; raises the program's TypeError as CPython does.
void expect(Trace& trace, const Args& args, const char* name, size_t least, size_t most);

}  // namespace gramme::protocol
