// Ways in which the program can override PyTorch's tensor operations: classes with a __torch_function__, and special
// methods assigned to torch.Tensor.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// Whether the class of a tensor handles its operations.
enum class Asked : uint8_t {
  Nobody,    // torch.Tensor, Parameter, and classes that disabled __torch_function__
  Default,   // inherits torch.Tensor's: tensor results get the class
  Subclass,  // its own
};
Asked asked_for(Trace& trace, const value::Tensor* tensor);
/// True for a tensor whose class handles operations.
bool is_asked(Trace& trace, Value* seen);
/// Ends the segment at a tensor whose sizes only its class knows (a jagged one).
void refuse_jagged(const meta::Record& record, const std::string& wanted);
/// Calls a special method of the tensor's class; null if the value is no such tensor, or on NotImplemented.
Value* call_by_name(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args);
/// Ends the segment if the class would be asked for what the capture reads from the tensor's description.
void refuse_torch_function(Trace& trace, const value::Tensor* tensor, const std::string& wanted);
/// The same for names that a Python method of torch.Tensor looks up on the class: ends the segment for any subclass.
void refuse_subclass(const value::Tensor* tensor, const std::string& wanted);
/// For tensors among the operands, guards that these special methods are PyTorch's originals; ends the segment if one
/// is not.
void refuse_replaced(Trace& trace, std::initializer_list<Value*> operands, std::initializer_list<PyObject*> methods);
/// The same for names that a Python function of PyTorch in the graph looks up: module functions and tensor methods.
void guard_lookups(Trace& trace, value::Function* function);
/// Notes the originals, before a program can replace one.
void note_tensor_methods();
/// True if an attribute of the instance hides the method of that name; guarded if not.
bool is_hidden(Trace& trace, value::Tensor* tensor, PyObject* name);

/// A tensor's only item as a Python number in the graph; ends the segment if graphs must not have such nodes.
Value* item(Trace& trace, value::Tensor* tensor, const std::string& wanted);

/// The value of len(tensor).
shape::SymInt tensor_length(Trace& trace, value::Tensor* tensor);

}  // namespace gramme::protocol
