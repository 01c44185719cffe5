// Interned names used by the protocol, made once.
#pragma once
#include "base/ref.h"

namespace gramme::protocol::names {

#define GRAMME_NAME(identifier, text) inline PyObject* const identifier = intern(text)
GRAMME_NAME(k_call, "__call__");
GRAMME_NAME(k_class, "__class__");
GRAMME_NAME(k_dict, "__dict__");
GRAMME_NAME(k_get, "__get__");
GRAMME_NAME(k_set, "__set__");
GRAMME_NAME(k_delete, "__delete__");
GRAMME_NAME(k_getattr, "__getattr__");
GRAMME_NAME(k_getattribute, "__getattribute__");
GRAMME_NAME(k_setattr, "__setattr__");
GRAMME_NAME(k_delattr, "__delattr__");
GRAMME_NAME(k_new, "__new__");
GRAMME_NAME(k_init, "__init__");
GRAMME_NAME(k_name, "__name__");
GRAMME_NAME(k_qualname, "__qualname__");
GRAMME_NAME(k_module, "__module__");
GRAMME_NAME(k_doc, "__doc__");
GRAMME_NAME(k_wrapped, "__wrapped__");
GRAMME_NAME(k_code, "__code__");
GRAMME_NAME(k_defaults, "__defaults__");
GRAMME_NAME(k_kwdefaults, "__kwdefaults__");
GRAMME_NAME(k_globals, "__globals__");
GRAMME_NAME(k_closure, "__closure__");
GRAMME_NAME(k_annotations, "__annotations__");
GRAMME_NAME(k_annotate, "__annotate__");
GRAMME_NAME(k_type_params, "__type_params__");
GRAMME_NAME(k_func, "__func__");
GRAMME_NAME(k_fget, "fget");
GRAMME_NAME(k_fset, "fset");
GRAMME_NAME(k_fdel, "fdel");
GRAMME_NAME(k_self, "__self__");
GRAMME_NAME(k_mro, "__mro__");
GRAMME_NAME(k_bases, "__bases__");
GRAMME_NAME(k_args, "args");
GRAMME_NAME(k_cause, "__cause__");
GRAMME_NAME(k_context, "__context__");
GRAMME_NAME(k_suppress_context, "__suppress_context__");
GRAMME_NAME(k_traceback, "__traceback__");
GRAMME_NAME(k_value, "value");
GRAMME_NAME(k_instancecheck, "__instancecheck__");
GRAMME_NAME(k_subclasscheck, "__subclasscheck__");
GRAMME_NAME(k_classdictcell, "__classdictcell__");
GRAMME_NAME(k_annotations_cache, "__annotations_cache__");
GRAMME_NAME(k_match_args, "__match_args__");
#undef GRAMME_NAME

}  // namespace gramme::protocol::names
