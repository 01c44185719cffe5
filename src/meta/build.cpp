// Recursion over the argument tree.
#include "meta/build.h"

#include "base/tuple_types.h"
#include "meta/silence.h"

namespace gramme::meta {

Owned<> Builder::build(const Argument& argument) const {
  switch (argument.kind) {
    case Argument::Tensor:
    case Argument::Number:
      return leaf_(argument);
    case Argument::Constant:
      return share(argument.object);
    case Argument::Tuple:
      return build_tuple(argument);
    case Argument::List: {
      Owned<> list = take(PyList_New(argument.count));
      for (uint32_t i = 0; i < argument.count; ++i) PyList_SET_ITEM(list.get(), i, build(argument.items[i]).release());
      return list;
    }
    case Argument::Dict: {
      Owned<> dict = take(PyDict_New());
      for (uint32_t i = 0; i + 1 < argument.count; i += 2)
        check(PyDict_SetItem(dict.get(), build(argument.items[i]).get(), build(argument.items[i + 1]).get()));
      return dict;
    }
    case Argument::Slice: {
      const Argument* parts = argument.items;
      return take(PySlice_New(build(parts[0]).get(), build(parts[1]).get(), build(parts[2]).get()));
    }
    case Argument::Body:
      return share(argument.object);
  }
  return {};
}

Owned<> Builder::tuple_of(const Argument* items, uint32_t count) const {
  Owned<> tuple = take(PyTuple_New(count));
  for (uint32_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, build(items[i]).release());
  return tuple;
}

Owned<> Builder::build_tuple(const Argument& argument) const {
  Owned<> tuple = tuple_of(argument.items, argument.count);
  if (!argument.object || argument.object == reinterpret_cast<PyObject*>(&PyTuple_Type)) return tuple;
  return tuple_of_type(argument.object, tuple.get());
}

Owned<> Builder::kwargs(const Call& call) const {
  if (call.keyword_count == 0) return {};
  Owned<> dict = take(PyDict_New());
  for (uint32_t i = 0; i < call.keyword_count; ++i)
    check(PyDict_SetItem(dict.get(), call.keyword_names[i], build(call.keyword_args[i]).get()));
  return dict;
}

PyObject* run_silently(const Call& call, PyObject* args, PyObject* kwargs) {
  if (call.kind == Call::Function) return Silence::call(call.target, args, kwargs);
  Owned<> method = Owned<>::steal(PyObject_GetAttr(PyTuple_GET_ITEM(args, 0), call.target));
  if (!method) return nullptr;
  Owned<> rest = take(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  return Silence::call(method.get(), rest.get(), kwargs);
}

}  // namespace gramme::meta
