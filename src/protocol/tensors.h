// What the program can put in the place of PyTorch's own answers: a class with a __torch_function__, and special
// methods assigned to torch.Tensor.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// Who answers for the tensors of a class.
enum class Asked : uint8_t {
  Nobody,    // torch.Tensor, Parameter, and classes that have switched it off
  Default,   // torch.Tensor.__torch_function__, inherited: results that are tensors get the class
  Subclass,  // its own
};
Asked asked_for(Trace& trace, const value::Tensor* tensor);
/// True for a tensor whose class is asked.
bool is_asked(Trace& trace, Value* seen);
/// The special method of a tensor's class, called; null if it is none, or returns NotImplemented.
Value* call_by_name(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args);
/// Ends the segment if the tensor's class would be asked for what its record says.
void refuse_torch_function(Trace& trace, const value::Tensor* tensor, const std::string& wanted);
/// The same of what a Python method of torch.Tensor looks up on the class: ends the segment for any subclass.
void refuse_subclass(const value::Tensor* tensor, const std::string& wanted);
/// Ends the segment if, for a tensor among the operands, one of the special methods is not PyTorch's own any more; else
/// guards that they are.
void refuse_replaced(Trace& trace, std::initializer_list<Value*> operands, std::initializer_list<PyObject*> methods);
/// The same for a Python function of PyTorch that stands in the graph: what its body looks up by name, functions of
/// modules and methods of tensors.
void guard_lookups(Trace& trace, value::Function* function);
/// Notes which they are, before a program can replace one.
void note_tensor_methods();
/// True if the instance has an attribute of its own under the name of a method. That it has none is guarded.
bool is_hidden(Trace& trace, value::Tensor* tensor, PyObject* name);

/// The only item of a tensor as a Python number, in the graph; ends the segment where graphs are to have none.
Value* item(Trace& trace, value::Tensor* tensor, const std::string& wanted);

/// What len() of the tensor gives.
shape::SymInt tensor_length(Trace& trace, value::Tensor* tensor);

}  // namespace gramme::protocol
