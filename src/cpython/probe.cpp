// The single fields and sizes that gramme reads, each compared with what the running interpreter states.
#include "cpython/probe.h"

#include <Python.h>
//
#include <structmember.h>

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/imported.h"
#include "cpython/internal.h"
#include "cpython/layouts.h"

namespace gramme::cpython {
namespace {

void add_sizes(std::vector<Layout>& all) {
  auto add = [&](PyTypeObject& type, size_t built) {
    all.push_back({std::string("the size of '") + type.tp_name + "'", static_cast<int64_t>(built), type.tp_basicsize});
  };
  add(PyType_Type, sizeof(PyHeapTypeObject));
  add(PyFunction_Type, sizeof(PyFunctionObject));
  add(PyCode_Type, offsetof(PyCodeObject, co_code_adaptive));
  add(PyCell_Type, sizeof(PyCellObject));
  add(PyMethod_Type, sizeof(PyMethodObject));
  add(PyCFunction_Type, sizeof(PyCFunctionObject));
  add(PyTraceBack_Type, sizeof(PyTracebackObject));
  add(PyDict_Type, sizeof(PyDictObject));
  add(PyODict_Type, sizeof(layout::ODict));
  add(PySet_Type, sizeof(PySetObject));
  add(PyList_Type, sizeof(PyListObject));
  add(PyListIter_Type, sizeof(layout::ListIterator));
  add(PyDictIterKey_Type, sizeof(layout::DictIterator));
  add(PyRangeIter_Type, sizeof(layout::RangeIterator));
  add(PyDictProxy_Type, sizeof(layout::MappingProxy));
  add(*imported_type("collections", "defaultdict"), sizeof(layout::DefaultDict));
}

/// The offset that the type's own table says; -1 if it has no such member.
int64_t offset_of(PyTypeObject& type, const char* name) {
  for (const PyMemberDef* member = type.tp_members; member && member->name; ++member)
    if (std::strcmp(member->name, name) == 0) return member->offset;
  return -1;
}

void add_members(std::vector<Layout>& all) {
  auto add = [&](PyTypeObject& type, const char* name, size_t built) {
    all.push_back({std::string("the offset of '") + type.tp_name + "." + name + "'", static_cast<int64_t>(built),
                   offset_of(type, name)});
  };
  add(PyFunction_Type, "__closure__", offsetof(PyFunctionObject, func_closure));
  add(PyFunction_Type, "__globals__", offsetof(PyFunctionObject, func_globals));
  add(PyFunction_Type, "__builtins__", offsetof(PyFunctionObject, func_builtins));
  add(PyCode_Type, "co_argcount", offsetof(PyCodeObject, co_argcount));
  add(PyCode_Type, "co_stacksize", offsetof(PyCodeObject, co_stacksize));
  add(PyCode_Type, "co_consts", offsetof(PyCodeObject, co_consts));
  add(PyCode_Type, "co_names", offsetof(PyCodeObject, co_names));
  add(PyCode_Type, "co_exceptiontable", offsetof(PyCodeObject, co_exceptiontable));
  add(PyMethod_Type, "__func__", offsetof(PyMethodObject, im_func));
  add(PyMethod_Type, "__self__", offsetof(PyMethodObject, im_self));
  add(PyType_Type, "__basicsize__", offsetof(PyTypeObject, tp_basicsize));
  add(PyType_Type, "__flags__", offsetof(PyTypeObject, tp_flags));
  add(PyType_Type, "__base__", offsetof(PyTypeObject, tp_base));
  add(PyType_Type, "__dictoffset__", offsetof(PyTypeObject, tp_dictoffset));
}

#if GRAMME_PYTHON_DEBUG_OFFSETS
void add_debug_offsets(std::vector<Layout>& all) {
  const _Py_DebugOffsets& here = _PyRuntime.debug_offsets;
  auto add = [&](const char* of, size_t built, uint64_t found) {
    all.push_back(
        {std::string("the offset of '") + of + "'", static_cast<int64_t>(built), static_cast<int64_t>(found)});
  };
  add("PyThreadState.interp", offsetof(PyThreadState, interp), here.thread_state.interp);
  add("PyThreadState.current_frame", offsetof(PyThreadState, current_frame), here.thread_state.current_frame);
  add("PyCodeObject.co_code_adaptive", offsetof(PyCodeObject, co_code_adaptive), here.code_object.co_code_adaptive);
  add("PyDictObject.ma_keys", offsetof(PyDictObject, ma_keys), here.dict_object.ma_keys);
  add("PyDictObject.ma_values", offsetof(PyDictObject, ma_values), here.dict_object.ma_values);
  add("PyLongObject.lv_tag", offsetof(PyLongObject, long_value.lv_tag), here.long_object.lv_tag);
  add("PyListObject.ob_item", offsetof(PyListObject, ob_item), here.list_object.ob_item);
}
#endif

}  // namespace

std::vector<Layout> layouts() {
  std::vector<Layout> all = frame_layouts();
  add_sizes(all);
  add_members(all);
#if GRAMME_PYTHON_DEBUG_OFFSETS
  add_debug_offsets(all);
#endif
  return all;
}

}  // namespace gramme::cpython
