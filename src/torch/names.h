// Access by id to private objects, files and attributes of torch: src/torch/<version>/torch_names.def.
//
//   PyObject* setter = of_torch::object(of_torch::SetGradEnabled);
//   if (of_torch::is_in(code->co_filename, of_torch::OptimizersFolder)) ...
#pragma once
#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ref.h"

namespace gramme::of_torch {

enum Name : uint16_t {
#define NAME(id, module, name) id,
#include "torch/2_13/torch_names.def"
#undef NAME
  kNames
};
enum Module : uint16_t {
#define MODULE(id, module) id,
#include "torch/2_13/torch_names.def"
#undef MODULE
  kModules
};
enum File : uint16_t {
#define PATH(id, path) id,
#include "torch/2_13/torch_names.def"
#undef PATH
  kFiles
};
enum Code : uint16_t {
#define CODE(id, file, name) id,
#include "torch/2_13/torch_names.def"
#undef CODE
  kCodes
};
enum Attribute : uint16_t {
#define ATTRIBUTE(id, file, name) id,
#include "torch/2_13/torch_names.def"
#undef ATTRIBUTE
  kAttributes
};
enum Message : uint16_t {
#define MESSAGE(id, text) id,
#include "torch/2_13/torch_names.def"
#undef MESSAGE
  kMessages
};
enum PlaceGroup : uint8_t { SetsState, WrapperOfOperator, MakesState, Capturable };
enum TextGroup : uint8_t { OfTools, OfModels, OfOperators, PackageOfOperators };

/// The type of the object that torch.profiler(with_stack=True) gives CPython with its profile function.
inline constexpr const char* kProfilerContext = "TraceContext";

/// A module or a file, and a qualified name in it.
struct Place {
  const char *where, *name;
};

Place place(Name id);
Place place(Code id);  // null members if this version has no such Python function
/// "torch._check"
std::string spelled(Name id);
const char* text(Module id);
std::span<const Place> places(PlaceGroup group);
std::span<const char* const> texts(TextGroup group);

namespace internal {
extern std::atomic<PyObject*> known[kNames];
PyObject* look_up(Name id);
}  // namespace internal

/// The object, borrowed; lives as long as the process. Imports its module if needed.
inline PyObject* object(Name id) {
  PyObject* known = internal::known[id].load(std::memory_order_acquire);
  return known ? known : internal::look_up(id);
}
inline PyTypeObject* type(Name id) { return reinterpret_cast<PyTypeObject*>(object(id)); }

/// The same without importing: null while nobody has imported the module.
PyObject* if_loaded(Name id);
/// The module, borrowed; null while nobody has imported it.
PyObject* if_loaded(Module id);

/// True if the name is that of a module inside the package.
bool is_within(PyObject* module_name, Module package);

const char* text(Attribute id);
/// The attribute's name, an interned str that lives as long as the process.
PyObject* attribute(Attribute id);

/// True if the file name is that of the file, or lies in the folder. False for a name with a lone surrogate.
bool is_in(PyObject* file_name, File id);

/// True if an exception's message contains this text of PyTorch's.
bool says(std::string_view message, Message id);

/// Which rows the installed torch lacks: objects of loaded modules, modules, files. Imports the other modules only if
/// `imports`.
std::vector<std::string> missing(bool imports = false);

}  // namespace gramme::of_torch
