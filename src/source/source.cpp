// The spelling of sources, equal to PyTorch's names in guards where those exist, and the pool that interns them.
#include "source/source.h"

#include <bit>

#include "source/constant.h"
#include "source/printer.h"

namespace gramme::source {
namespace {

std::string quoted(const char* table, PyObject* name) { return std::string(table) + "[" + describe(name) + "]"; }

std::string text(PyObject* string) {
  const char* bytes = PyUnicode_AsUTF8(string);
  if (bytes) return bytes;
  PyErr_Clear();  // lone surrogates
  return describe(string);
}

/// PyTorch's name for a module that is reached through an inlined function: G['__import_torch_dot_nn'].
std::string import_name(const std::string& module) {
  std::string result = "G['__import_";
  for (char c : module) c == '.' ? result += "_dot_" : result += c;
  return result + "']";
}

/// How a pinned object is named: a module by PyTorch's name, a C function by its own, others by describe().
std::string print_pinned(PyObject* object) {
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name) return import_name(name);
    PyErr_Clear();
  }
  if (PyCFunction_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  return describe(object);
}

/// The name of the module whose globals a pinned function has; empty if it is not known without running Python.
std::string module_of(const Source* function) {
  if (function->kind != Kind::Pinned || !PyFunction_Check(function->key.get())) return {};
  PyObject* name = PyDict_GetItemString(PyFunction_GET_GLOBALS(function->key.get()), "__name__");
  return name && PyUnicode_CheckExact(name) ? text(name) : std::string();
}

std::string print_value(const Source& source, Printer& print) {
  const Source* dict = source.base;
  std::string key = describe(source.key.get());
  if (dict->kind == Kind::Globals) {
    if (dict->variable || dict->base->kind == Kind::Function) return "G[" + key + "]";
    std::string module = module_of(dict->base);
    if (!module.empty() && PyUnicode_Check(source.key.get())) return import_name(module) + "." + text(source.key.get());
  }
  if (dict->kind == Kind::Builtins) return "G['__builtins__'][" + key + "]";
  return print(dict) + "[" + key + "]";
}

/// A cell's content; for a cell of the frame or its function's closure PyTorch names the variable.
std::string print_contents(const Source& source, Printer& print) {
  const Source* cell = source.base;
  bool of_frame = cell->kind == Kind::Local || (cell->kind == Kind::Closure && cell->base->kind == Kind::Function);
  if (of_frame && cell->key)
    return quoted("L", cell->kind == Kind::Local ? variable_name(*cell).get() : cell->key.get());
  return print(cell) + ".cell_contents";
}

std::string frame_suffix(const Source& root) {
  const int frame = frame_of(root.index);
  return frame ? "_of_caller" + std::to_string(frame) : "";
}

/// The text of a root, or what is appended to the base's text by kinds that need only their own key or index.
std::string own_text(const Source& source) {
  switch (source.kind) {
    case Kind::Local:
    case Kind::Stack:
      return quoted("L", variable_name(source).get());
    case Kind::Function:
      return "___function" + frame_suffix(source);
    case Kind::Exception:
      return source.index ? "___outer_exception" : "___exception";
    case Kind::Pinned:
      return print_pinned(source.key.get());
    case Kind::Module:
      return import_name(text(source.key.get()));
    case Kind::Attr:
    case Kind::Slot:
    case Kind::TypeAttr:
      return "." + text(source.key.get());
    case Kind::Item:
    case Kind::DequeItem:
      return "[" + std::to_string(source.index) + "]";
    case Kind::Closure:
      return ".__closure__[" + std::to_string(source.index) + "]";
    case Kind::Globals:
      return ".__globals__";
    case Kind::Builtins:
      return ".__builtins__";
    case Kind::Defaults:
      return ".__defaults__";
    case Kind::KwDefaults:
      return ".__kwdefaults__";
    case Kind::Annotations:
      return ".__annotations__";
    case Kind::MethodSelf:
      return ".__self__";
    case Kind::MethodFunc:
      return ".__func__";
    case Kind::PartialFunc:
      return ".func";
    case Kind::PartialArgs:
      return ".args";
    case Kind::PartialKw:
      return ".keywords";
    case Kind::InstanceDict:
      return ".__dict__";
    case Kind::Mro:
      return ".__mro__";
    case Kind::Grad:
      return ".grad";
    case Kind::DefaultFactory:
      return ".default_factory";
    case Kind::ContextValue:
      return ".get()";
    case Kind::TokenPart: {
      static constexpr const char* kParts[] = {".var", ".old_value", ".context"};
      return kParts[source.index];
    }
    case Kind::IteratorOf:
      return ".__reduce__()[1][0]";
    case Kind::Name: {
      static constexpr const char* kNames[] = {".__name__", ".__qualname__", ".__module__", ".__doc__"};
      return kNames[source.index];
    }
    case Kind::ThreadDict:
      return ".__dict__";
    case Kind::WeakTarget:
      return "()";
    case Kind::CacheTable:
      return ".cache";
    case Kind::SizeOf:
      return ".size()[" + std::to_string(source.index) + "]";
    case Kind::StrideOf:
      return ".stride()[" + std::to_string(source.index) + "]";
    case Kind::OffsetOf:
      return ".storage_offset()";
    case Kind::ProxyMapping:
    case Kind::CacheResult:
    case Kind::ArrayTensor:
      break;  // read like what is behind it
    case Kind::Value:
    case Kind::Contents:
    case Kind::MemberAt:
    case Kind::KeyAt:
    case Kind::ValueAt:
    case Kind::Ahead:
    case Kind::ValueAhead:
      break;  // print_anew() spells them
  }
  return "";
}

std::string print_anew(const Source& source, Printer& print) {
  if (source.variable) return quoted("L", source.variable.get());
  if (!source.base) return own_text(source);
  if (source.kind == Kind::Value) return print_value(source, print);
  if (source.kind == Kind::Contents) return print_contents(source, print);
  const std::string& of = print(source.base);
  if (source.kind == Kind::MemberAt) return "list(" + of + ")[" + std::to_string(source.index) + "]";
  if (source.kind == Kind::KeyAt) return "list(dict.keys(" + of + "))[" + std::to_string(source.index) + "]";
  if (source.kind == Kind::ValueAt) return of + "[list(dict.keys(" + of + "))[" + std::to_string(source.index) + "]]";
  if (source.kind == Kind::Ahead) return "list(" + of + ")[" + std::to_string(source.index) + "]";
  if (source.kind == Kind::ValueAhead) return "list(" + of + ")[" + std::to_string(source.index) + "][1]";
  return of + own_text(source);
}

}  // namespace

Owned<> variable_name(const Source& local) {
  const int frame = frame_of(local.index), index = within_frame(local.index);
  if (local.key && !frame) return local.key;
  std::string name = local.kind == Kind::Stack ? "___stack" + std::to_string(index)
                     : local.key               ? text(local.key.get())
                                               : std::to_string(index);
  if (frame) name = "___caller" + std::to_string(frame) + "_" + name;
  return take(PyUnicode_FromString(name.c_str()));
}

const std::string& Printer::operator()(const Source* source) {
  auto found = texts_.find(source);
  return found != texts_.end() ? found->second : texts_.emplace(source, print_anew(*source, *this)).first->second;
}

std::string Source::print() const {
  Printer print;
  return print(this);
}

/// Depends on the order: a path and its reverse hash differently.
static size_t mixed(size_t hash, size_t more) {
  const size_t product = (std::rotl(hash, 17) ^ more) * 0x9e3779b97f4a7c15;
  return product ^ product >> 32;
}

const Source* Pool::intern(Kind kind, const Source* base, PyObject* key, int64_t index) {
  size_t hash = mixed(base ? base->path : 0, static_cast<size_t>(kind) << 32 ^ static_cast<size_t>(index));
  if (key) hash = mixed(hash, constant_hash(key));
  auto [first, last] = table_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Source* known = it->second;
    bool same_key = key && known->key ? same_constant(key, known->key.get()) : !key && !known->key;
    if (known->kind == kind && known->base == base && known->index == index && same_key) return known;
  }
  sources_.push_back({kind, base, share(key), index, static_cast<uint32_t>(sources_.size()), hash, {}});
  table_.emplace(hash, &sources_.back());
  return &sources_.back();
}

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {
#define SOURCE(name, ...) #name,
#include "source/sources.def"
#undef SOURCE
  };
  return kNames[static_cast<int>(kind)];
}

}  // namespace gramme::source
