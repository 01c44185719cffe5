#include "stepper.h"

#include "cpython/code_object.h"
#include "cpython/observed.h"

#if GRAMME_PYTHON_TAGGED_SLOTS
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#include <internal/pycore_call.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_intrinsics.h>
#include <internal/pycore_object.h>
#include <internal/pycore_opcode_utils.h>
#include <internal/pycore_pyerrors.h>
#undef Py_BUILD_CORE
#endif
#include <opcode.h>

#include <algorithm>
#include <vector>

#include "base/ref.h"
#include "program.h"

namespace frames {

using gramme::Owned;
using gramme::cpython::ExceptionTable;
using gramme::cpython::find_handler;
using gramme::cpython::FrameImage;
using gramme::cpython::SlotKind;

Counts counts;

#if !GRAMME_PYTHON_TAGGED_SLOTS
PyObject* run(PyThreadState* thread, FrameImage frame, const Rules&, int throwing) {
  return _PyEval_EvalFrameDefault(thread, frame.raw(), throwing);
}
#else
namespace {

bool takes_iterator(int opcode) {
  return opcode == GET_ITER || opcode == FOR_ITER || opcode == POP_ITER || opcode == SEND || opcode == END_SEND;
}

enum class Outcome : uint8_t { Next, Raised, RaisedAgain, Returned, HandOver };

/// In which order an instruction lets go of its operands.
enum class Order : uint8_t { LowFirst, TopFirst };
constexpr Order kBinary = GRAMME_PYTHON_ITERATOR_PAIRS ? Order::TopFirst : Order::LowFirst;

class Stepper {
 public:
  Stepper(PyThreadState* thread, FrameImage frame, const Rules& rules)
      : thread_(thread), frame_(frame), rules_(rules), program_(program_of(frame.code())) {}

  PyObject* run() {
    if (rules_.holds == Holds::All) frame_.make_safe();
    link();
    for (int n = 0; n < rules_.steps; ++n) {
      const auto found = program_.find(frame_.next());
      i_ = &found->second;
      if (rules_.holds == Holds::AsCompiled) lend();
      next_ = i_->next;
      frame_.set_current(i_->at);
      Outcome outcome = step();
      if (outcome == Outcome::HandOver) {
        ++counts.unknown[i_->opcode];
        frame_.set_next(found->first);
        break;
      }
      ++counts.stepped;
      counts.longest = std::max<long>(counts.longest, n + 1);
      if (outcome == Outcome::Returned) return value_;
      if (outcome == Outcome::Next) {
        frame_.set_next(next_);
      } else if (!unwind(outcome == Outcome::Raised)) {
        return leave();
      }
      if (is_watched()) break;
    }
    ++counts.handed_over;
    if (rules_.holds == Holds::AsCompiled) {
      i_ = &program_.find(frame_.next())->second;
      lend();
    }
    unlink();
    return _PyEval_EvalFrameDefault(thread_, frame_.raw(), 0);
  }

 private:
  PyThreadState* thread_;
  FrameImage frame_;
  const Rules& rules_;
  const Program& program_;
  const Instruction* i_ = nullptr;
  int next_ = 0;
  PyObject* value_ = nullptr;

  void link() {
    frame_.raw()->previous = gramme::cpython::current_frame(thread_);
    gramme::cpython::set_current_frame(thread_, frame_.raw());
  }
  bool is_watched() const { return rules_.aware && gramme::cpython::is_observed(thread_, frame_.code()); }
  void unlink() { gramme::cpython::set_current_frame(thread_, frame_.raw()->previous); }

  /// Items that CPython would have borrowed here give their references back.
  void lend() {
    const int known = std::min(static_cast<int>(i_->lenders.size()), frame_.depth());
    for (int n = 1; n <= known; ++n)
      if (int slot = i_->lenders[n - 1]; slot >= 0) frame_.lend_item(n, slot);
  }

  /// The exception leaves the frame, which is cleared; its traceback entry is there.
  PyObject* leave() {
    frame_.drop(frame_.depth());
    unlink();
    _PyEval_FrameClearAndPop(thread_, frame_.raw());
    return nullptr;
  }

  /// Not by the evaluator, entered to throw: it looks for the handler one unit before where the frame stands, so the
  /// frame would have to stand one behind, whose line is another one, or none; and tools are told of a throw.
  bool unwind(bool traceback) {
    if (traceback)
      if (PyFrameObject* object = PyThreadState_GetFrame(thread_)) {
        PyTraceBack_Here(object);
        Py_DECREF(object);
      }
    if (is_watched()) _PyEval_MonitorRaise(thread_, frame_.raw(), _PyCode_CODE(frame_.code()) + i_->at);
    ExceptionTable::Entry handler;
    if (!find_handler(frame_.code(), i_->at, &handler)) return false;  // where RERAISE stands, not what it speaks of
    frame_.drop(frame_.depth() - handler.depth);
    if (handler.lasti) frame_.push_index(frame_.current());
    frame_.push(PyErr_GetRaisedException());
    frame_.set_next(handler.target);
    return true;
  }

  // ---- operands

  PyObject* item(int n = 1) const { return frame_.item(n); }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(frame_.code()->co_names, index); }
  Outcome push(PyObject* owned) {
    if (!owned) return Outcome::Raised;
    frame_.push(owned);
    return Outcome::Next;
  }
  /// The top items die, each while the others above or below it are still on the stack.
  void let_go(int count, Order order) {
    for (int k = 0; k < count; ++k) frame_.set_item(order == Order::LowFirst ? count - k : k + 1, nullptr);
    frame_.drop(count);
  }
  Outcome replace(int count, PyObject* owned, Order order = Order::LowFirst) {
    if (!owned) return Outcome::Raised;  // unwinding drops them
    // The result takes the place of the lowest before it dies.
    if (order == Order::LowFirst) {
      frame_.set_item(count, owned);
      for (int n = count - 1; n > 0; --n) frame_.set_item(n, nullptr);
      frame_.drop(count - 1);
      return Outcome::Next;
    }
    let_go(count, order);
    return push(owned);
  }
  Outcome dropped(int count, int status, Order order = Order::TopFirst) {
    let_go(count, order);
    return status < 0 ? Outcome::Raised : Outcome::Next;
  }
  Outcome jump_if(bool condition) {
    if (condition) next_ = i_->next + i_->arg;
    return Outcome::Next;
  }
  Outcome load_fast(int slot) {
    frame_.push(Py_NewRef(frame_.local(slot)));
    return Outcome::Next;
  }
  /// A load that CPython's compiler has found not to need a reference: it gets one here, and lend() gives it back.
  void store_fast(int slot) { frame_.set_local(slot, frame_.pop()); }

  // ---- calls

  /// callable, self or nothing, arguments, names of arguments if it has any.
  Outcome call(bool has_names) {
    const int arguments = i_->arg, above = has_names ? 1 : 0, bottom = arguments + 2 + above;
    expand_method(bottom);
    std::vector<PyObject*> values{nullptr};  // room for a self in front
    const bool has_self = frame_.item_kind(bottom - 1) != SlotKind::Empty;
    for (int n = bottom - (has_self ? 1 : 2); n > above; --n) values.push_back(item(n));
    PyObject* names = has_names ? item() : nullptr;
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject* callable = item(bottom);
    PyObject* result;
    if (rules_.calls == Calls::Moved && moves(callable)) {
      result = call_moved(callable, bottom, above, names);
    } else {
      const size_t positional = values.size() - 1 - named;
      result = PyObject_Vectorcall(callable, values.data() + 1, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
    }
    let_go(bottom, Order::TopFirst);
    return push(result);
  }

  void expand_method(int bottom) {
    PyObject* callable = item(bottom);
    if (frame_.item_kind(bottom - 1) != SlotKind::Empty || !PyMethod_Check(callable)) return;
    frame_.set_item(bottom - 1, Py_NewRef(PyMethod_GET_SELF(callable)));
    frame_.set_item(bottom, Py_NewRef(PyMethod_GET_FUNCTION(callable)));
  }
  static bool moves(PyObject* callable) { return PyFunction_Check(callable); }

  /// As the evaluator calls: the frame that begins takes the stack's references over.
  PyObject* call_moved(PyObject* callable, int bottom, int above, PyObject* names) {
    _PyStackRef* top = frame_.raw()->stackpointer;
    std::vector<_PyStackRef> arguments;
    for (int n = bottom - (frame_.item_kind(bottom - 1) == SlotKind::Empty ? 2 : 1); n > above; --n) {
      arguments.push_back(top[-n]);
      top[-n] = PyStackRef_NULL;
    }
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    const _PyStackRef function = top[-bottom];
    top[-bottom] = PyStackRef_NULL;
    const Owned<> held_names = Owned<>::share(names);
    static_cast<void>(callable);
    auto* callee = _PyEvalFramePushAndInit(thread_, function, nullptr, arguments.data(), arguments.size() - named,
                                           held_names.get(), nullptr);
    if (!callee) return nullptr;
    return thread_->interp->eval_frame ? thread_->interp->eval_frame(thread_, callee, 0)
                                       : _PyEval_EvalFrameDefault(thread_, callee, 0);
  }

  Outcome call_unpacked() {  // callable, nothing, arguments, keywords or nothing
    PyObject *keywords = item(1), *arguments = item(2), *callable = item(4);
    if (!PyTuple_CheckExact(arguments)) {
      if (!Py_TYPE(arguments)->tp_iter && !PySequence_Check(arguments)) return Outcome::HandOver;
      PyObject* tuple = PySequence_Tuple(arguments);
      if (!tuple) return Outcome::Raised;
      frame_.set_item(2, tuple);
      arguments = tuple;
    }
    PyObject* result = PyObject_Call(callable, arguments, keywords);
    frame_.set_item(1, nullptr);
    frame_.set_item(2, nullptr);
    frame_.set_item(4, nullptr);
    frame_.drop(4);
    return push(result);
  }

  // ---- families

  Outcome load_attr() {
    PyObject* owner = item();
    PyObject* attribute_name = name(i_->arg >> 1);
    if (!(i_->arg & 1)) return replace(1, PyObject_GetAttr(owner, attribute_name));
    PyObject* method = nullptr;
    if (_PyObject_GetMethod(owner, attribute_name, &method)) {
      frame_.push(method);
      frame_.swap(2);  // the owner, as it was, is self
      return Outcome::Next;
    }
    if (!method) return Outcome::Raised;
    replace(1, method);
    frame_.push(nullptr);
    return Outcome::Next;
  }

  Outcome load_global() {
    const int index = i_->arg >> 1;
    PyObject* found = nullptr;
    if (PyDict_GetItemRef(frame_.globals(), name(index), &found) == 0)
      if (PyMapping_GetOptionalItem(frame_.builtins(), name(index), &found) == 0)
        PyErr_Format(PyExc_NameError, "name '%.200s' is not defined", PyUnicode_AsUTF8(name(index)));
    if (!found) return Outcome::Raised;
    frame_.push(found);
    if (i_->arg & 1) frame_.push(nullptr);
    return Outcome::Next;
  }

  Outcome binary_op() {
    if (i_->arg == NB_SUBSCR) return replace(2, PyObject_GetItem(item(2), item(1)), kBinary);
    return replace(2, _PyEval_BinaryOps[i_->arg](item(2), item(1)), kBinary);
  }

  Outcome compare() {
    PyObject* result = PyObject_RichCompare(item(2), item(1), i_->arg >> 5);
    if (result && (i_->arg & 16)) {
      const Owned<> held = Owned<>::steal(result);
      const int truth = PyObject_IsTrue(result);
      result = truth < 0 ? nullptr : Py_NewRef(truth ? Py_True : Py_False);
    }
    return replace(2, result, Order::TopFirst);
  }

  Outcome for_iter() {
    PyObject* iterator = item();
    if (PyObject* value = Py_TYPE(iterator)->tp_iternext(iterator)) return push(value);
    if (PyErr_Occurred()) {
      if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Outcome::Raised;
      PyErr_Clear();
    }
    next_ = i_->next + i_->arg + 1;  // behind END_FOR, at POP_ITER
    return Outcome::Next;
  }

  Outcome unpack() {
    PyObject* sequence = frame_.pop();
    const Owned<> held = Owned<>::steal(sequence);
    _PyStackRef* top = frame_.raw()->stackpointer + i_->arg;
    if (!_PyEval_UnpackIterableStackRef(thread_, sequence, i_->arg, -1, top)) return Outcome::Raised;
    frame_.raw()->stackpointer = top;
    return Outcome::Next;
  }

  Outcome build(PyObject* container, bool tuple) {
    if (!container) return Outcome::Raised;
    const int count = i_->arg;
    for (int n = count; n > 0; --n) {  // the references go over
      PyObject* value = frame_.pop();
      if (tuple)
        PyTuple_SET_ITEM(container, n - 1, value);
      else
        PyList_SET_ITEM(container, n - 1, value);
    }
    return push(container);
  }

  Outcome build_map() {
    const int count = i_->arg;
    const Owned<> map = Owned<>::steal(PyDict_New());
    for (int n = 2 * count; n > 0; n -= 2)
      if (PyDict_SetItem(map.get(), item(n), item(n - 1)) < 0) return Outcome::Raised;
    let_go(2 * count, Order::TopFirst);
    return push(Py_NewRef(map.get()));
  }

  Outcome build_string() {
    const int count = i_->arg;
    std::vector<PyObject*> pieces;
    for (int n = count; n > 0; --n) pieces.push_back(item(n));
    const Owned<> list = Owned<>::steal(PyList_New(count)), empty = Owned<>::steal(PyUnicode_New(0, 0));
    for (int k = 0; k < count; ++k) PyList_SET_ITEM(list.get(), k, Py_NewRef(pieces[k]));
    PyObject* joined = PyUnicode_Join(empty.get(), list.get());
    let_go(count, Order::TopFirst);
    return push(joined);
  }

  Outcome push_exception_info() {
    _PyErr_StackItem* info = thread_->exc_info;
    PyObject* raised = frame_.pop();
    frame_.push(info->exc_value ? info->exc_value : Py_NewRef(Py_None));
    info->exc_value = Py_NewRef(raised);
    frame_.push(raised);
    return Outcome::Next;
  }
  Outcome pop_exception() {
    _PyErr_StackItem* info = thread_->exc_info;
    PyObject* before = frame_.pop();
    PyObject* handled = info->exc_value;
    if (before == Py_None) Py_CLEAR(before);
    info->exc_value = before;
    Py_XDECREF(handled);
    return Outcome::Next;
  }

  Outcome raise_again() {
    PyObject* raised = frame_.pop();
    if (i_->arg) {
      if (frame_.item_kind(i_->arg) != SlotKind::Index) return Outcome::HandOver;
      const auto index = static_cast<int>(PyStackRef_UntagInt(frame_.raw()->stackpointer[-i_->arg]));
      frame_.set_current(index);
    }
    PyErr_SetRaisedException(raised);
    return Outcome::RaisedAgain;
  }

  Outcome raise() {
    if (i_->arg != 1) return Outcome::HandOver;
    PyObject* what = item();
    Owned<> value;
    if (PyExceptionClass_Check(what)) {
      value = Owned<>::steal(PyObject_CallNoArgs(what));
      if (!value) return Outcome::Raised;
    } else if (PyExceptionInstance_Check(what)) {
      value = Owned<>::share(what);
    } else {
      return Outcome::HandOver;
    }
    frame_.drop(1);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.get())), value.get());
    return Outcome::Raised;
  }

  Outcome load_special() {
    PyObject* owner = item();
    PyObject* name = _Py_SpecialMethods[i_->arg].name;
    PyObject* method = _PyType_Lookup(Py_TYPE(owner), name);
    if (!method || !PyFunction_Check(method)) return Outcome::HandOver;
    frame_.push(Py_NewRef(method));
    frame_.swap(2);
    return Outcome::Next;
  }

  Outcome with_except_start() {
    PyObject* raised = item();
    PyObject* traceback = PyException_GetTraceback(raised);
    const Owned<> held = Owned<>::steal(traceback);
    PyObject* values[] = {nullptr, item(4), reinterpret_cast<PyObject*>(Py_TYPE(raised)), raised,
                          traceback ? traceback : Py_None};
    const bool has_self = values[1] != nullptr;
    return push(PyObject_Vectorcall(item(5), values + (has_self ? 1 : 2),
                                    (has_self ? 4 : 3) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  }

  Outcome make_function() {
    PyObject* code = item();
    PyObject* made = PyFunction_New(code, frame_.globals());
    return replace(1, made);
  }
  Outcome set_function_attribute() {  // attribute, function
    if (i_->arg != MAKE_FUNCTION_CLOSURE && i_->arg != MAKE_FUNCTION_DEFAULTS) return Outcome::HandOver;
    auto* function = reinterpret_cast<PyFunctionObject*>(item());
    PyObject*& place = i_->arg == MAKE_FUNCTION_CLOSURE ? function->func_closure : function->func_defaults;
    place = Py_NewRef(item(2));
    frame_.swap(2);
    frame_.drop(1);
    return Outcome::Next;
  }

  Outcome return_value() {
    PyObject* value = frame_.pop();
    unlink();
    _PyEval_FrameClearAndPop(thread_, frame_.raw());
    value_ = value;
    return Outcome::Returned;
  }

  /// The generator is suspended, and what it handled is its own again.
  Outcome yield_value() {
    auto* generator = _PyGen_GetGeneratorFromFrame(frame_.raw());
    value_ = frame_.pop();
    frame_.set_next(i_->next);
    unlink();
    generator->gi_frame_state = i_->arg == 0 ? FRAME_SUSPENDED : FRAME_SUSPENDED_YIELD_FROM;
    thread_->exc_info = generator->gi_exc_state.previous_item;
    generator->gi_exc_state.previous_item = nullptr;
    frame_.raw()->previous = nullptr;
    frame_.raw()->return_offset = 0;
#if GRAMME_PYTHON_YIELD_FLAG
    auto* state = reinterpret_cast<_PyThreadStateImpl*>(thread_);
    state->generator_return_kind = decltype(state->generator_return_kind)::GENERATOR_YIELD;
#endif
    return Outcome::Returned;
  }

  Outcome step() {
    const int arg = i_->arg;
    if (GRAMME_PYTHON_ITERATOR_PAIRS && takes_iterator(i_->opcode)) return Outcome::HandOver;
    switch (i_->opcode) {
      case RESUME:
        return Outcome::Next;
      case NOP:
      case NOT_TAKEN:
        return Outcome::Next;
      case LOAD_FAST:
      case LOAD_FAST_BORROW:
        return load_fast(arg);
      case LOAD_FAST_CHECK:
        return frame_.local(arg) ? load_fast(arg) : Outcome::HandOver;
      case LOAD_FAST_AND_CLEAR:
        frame_.push(frame_.exchange_local(arg, nullptr));
        return Outcome::Next;
      case LOAD_FAST_LOAD_FAST:
      case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
        load_fast(arg >> 4);
        return load_fast(arg & 15);
      case STORE_FAST:
        store_fast(arg);
        return Outcome::Next;
      case STORE_FAST_STORE_FAST:
        store_fast(arg >> 4);
        store_fast(arg & 15);
        return Outcome::Next;
      case STORE_FAST_LOAD_FAST:
        store_fast(arg >> 4);
        return load_fast(arg & 15);
      case DELETE_FAST:
        if (!frame_.local(arg)) return Outcome::HandOver;
        frame_.set_local(arg, nullptr);
        return Outcome::Next;
      case MAKE_CELL:
        frame_.set_local(arg, PyCell_New(frame_.local(arg)));
        return Outcome::Next;
      case COPY_FREE_VARS:
        for (int k = 0; k < arg; ++k)
          frame_.set_local(frame_.local_count() - arg + k,
                           Py_NewRef(PyTuple_GET_ITEM(frame_.function()->func_closure, k)));
        return Outcome::Next;
      case LOAD_DEREF: {
        PyObject* value = PyCell_GET(frame_.local(arg));
        return value ? push(Py_NewRef(value)) : Outcome::HandOver;
      }
      case STORE_DEREF: {
        PyObject* cell = frame_.local(arg);
        PyObject* old = PyCell_GET(cell);
        PyCell_SET(cell, frame_.pop());
        Py_XDECREF(old);
        return Outcome::Next;
      }
      case LOAD_CONST:
        return push(Py_NewRef(PyTuple_GET_ITEM(frame_.code()->co_consts, arg)));
      case LOAD_SMALL_INT:
        return push(PyLong_FromLong(arg));
      case LOAD_GLOBAL:
        return load_global();
      case LOAD_ATTR:
        return load_attr();
      case STORE_ATTR:  // value, owner
        return dropped(2, PyObject_SetAttr(item(), name(arg), item(2)));
      case DELETE_ATTR:
        return dropped(1, PyObject_DelAttr(item(), name(arg)));
      case STORE_SUBSCR:  // value, container, key
        return dropped(3, PyObject_SetItem(item(2), item(1), item(3)));
      case DELETE_SUBSCR:
        return dropped(2, PyObject_DelItem(item(2), item(1)));
      case BINARY_OP:
        return binary_op();
      case COMPARE_OP:
        return compare();
      case UNARY_NEGATIVE:
        return replace(1, PyNumber_Negative(item()));
      case UNARY_INVERT:
        return replace(1, PyNumber_Invert(item()));
      case UNARY_NOT:
        return replace(1, Py_NewRef(item() == Py_False ? Py_True : Py_False));
      case IS_OP:
        return replace(2, Py_NewRef((item(1) == item(2)) != (arg == 1) ? Py_True : Py_False), Order::TopFirst);
      case CONTAINS_OP: {
        const int found = PySequence_Contains(item(1), item(2));
        return replace(2, found < 0 ? nullptr : Py_NewRef((found == 1) != (arg == 1) ? Py_True : Py_False),
                       Order::TopFirst);
      }
      case TO_BOOL: {
        const int truth = PyObject_IsTrue(item());
        return replace(1, truth < 0 ? nullptr : Py_NewRef(truth ? Py_True : Py_False));
      }
      case POP_JUMP_IF_TRUE:
      case POP_JUMP_IF_FALSE: {
        const bool truth = item() == Py_True;
        frame_.drop(1);
        return jump_if(truth == (i_->opcode == POP_JUMP_IF_TRUE));
      }
      case POP_JUMP_IF_NONE:
      case POP_JUMP_IF_NOT_NONE: {
        const bool none = item() == Py_None;
        frame_.drop(1);
        return jump_if(none == (i_->opcode == POP_JUMP_IF_NONE));
      }
      case JUMP_FORWARD:
        return jump_if(true);
      case JUMP_BACKWARD:
      case JUMP_BACKWARD_NO_INTERRUPT:
        next_ = i_->next - arg;
        return Outcome::Next;
      case GET_ITER:
        return replace(1, PyObject_GetIter(item()));
      case FOR_ITER:
        return for_iter();
      case POP_ITER:
      case END_FOR:
      case POP_TOP:
        frame_.drop(1);
        return Outcome::Next;
      case PUSH_NULL:
        frame_.push(nullptr);
        return Outcome::Next;
      case COPY:
        frame_.copy(arg);
        return Outcome::Next;
      case SWAP:
        frame_.swap(arg);
        return Outcome::Next;
      case BUILD_TUPLE:
        return arg ? build(PyTuple_New(arg), true) : push(PyTuple_New(0));
      case BUILD_LIST:
        return build(PyList_New(arg), false);
      case BUILD_MAP:
        return build_map();
      case BUILD_STRING:
        return build_string();
      case LIST_APPEND: {
        PyObject* value = frame_.pop();
        const int status = PyList_Append(item(arg), value);
        Py_DECREF(value);
        return status < 0 ? Outcome::Raised : Outcome::Next;
      }
      case LIST_EXTEND: {
        PyObject* none = PyObject_CallMethod(item(1 + arg), "extend", "O", item());
        const Owned<> held = Owned<>::steal(none);
        return dropped(1, none ? 0 : -1);
      }
      case UNPACK_SEQUENCE:
        return unpack();
      case FORMAT_SIMPLE:
        if (PyUnicode_CheckExact(item())) return Outcome::Next;
        return replace(1, PyObject_Format(item(), nullptr));
      case CONVERT_VALUE:
        return replace(1, _PyEval_ConversionFuncs[arg](item()));
      case CALL_INTRINSIC_1: {
        PyObject* result = _PyIntrinsics_UnaryFunctions[arg].func(thread_, item());
        return replace(1, result);
      }
      case CALL:
        return call(false);
      case CALL_KW:
        return call(true);
      case CALL_FUNCTION_EX:
        return call_unpacked();
      case MAKE_FUNCTION:
        return make_function();
      case SET_FUNCTION_ATTRIBUTE:
        return set_function_attribute();
      case RETURN_VALUE:
        return return_value();
      case YIELD_VALUE:
        return yield_value();
      case RAISE_VARARGS:
        return raise();
      case RERAISE:
        return raise_again();
      case PUSH_EXC_INFO:
        return push_exception_info();
      case POP_EXCEPT:
        return pop_exception();
      case CHECK_EXC_MATCH: {
        if (_PyEval_CheckExceptTypeValid(thread_, item()) < 0) return Outcome::Raised;
        return replace(1, Py_NewRef(PyErr_GivenExceptionMatches(item(2), item(1)) ? Py_True : Py_False));
      }
      case LOAD_SPECIAL:
        return load_special();
      case WITH_EXCEPT_START:
        return with_except_start();
      case END_SEND:
        frame_.swap(2);
        frame_.drop(1);
        return Outcome::Next;
      default:
        return Outcome::HandOver;
    }
  }
};

}  // namespace

PyObject* run(PyThreadState* thread, FrameImage frame, const Rules& rules, int throwing) {
  if (throwing || (rules.aware && gramme::cpython::is_observed(thread, frame.code())))
    return _PyEval_EvalFrameDefault(thread, frame.raw(), throwing);
  return Stepper(thread, frame, rules).run();
}
#endif

}  // namespace frames
