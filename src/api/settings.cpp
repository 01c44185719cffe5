#include "api/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/imported.h"
#include "base/interruption.h"
#include "base/option.h"

namespace gramme::api {
namespace {

constexpr char kConfig[] = "torch._dynamo.config";
constexpr int kDefaultLimit = 8, kDefaultAccumulatedLimit = 256;
constexpr int kHighestLimit = 1'000'000'000;

bool is_loaded(const char* module) { return PyDict_GetItemString(PyImport_GetModuleDict(), module); }

bool environment_says(const char* name) {
  const char* value = std::getenv(name);
  return value && std::string_view(value) == "1";
}

/// A number of any size, within what an int holds.
int limit_of(Option& option, int otherwise) {
  Owned<> value = option.value();
  if (!value) return otherwise;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  if (PyErr_Occurred()) throw PythonError();
  if (overflow) return overflow > 0 ? kHighestLimit : -kHighestLimit;
  return static_cast<int>(std::clamp<int64_t>(number, -kHighestLimit, kHighestLimit));
}

/// A setting that gramme does not follow.
struct Setting {
  const char* name;
  std::string_view values;  // in which there is nothing to follow
  const char* meaning;
  Option option;
  PyObject* accepted = nullptr;  // the value that was looked at last; held
  bool told = false;

  bool means_the_same(PyObject* value) const {
    Owned<> shown = take(PyObject_Repr(value));
    const char* text = PyUnicode_AsUTF8(shown.get());
    if (!text) throw PythonError();
    for (std::string_view rest = values; !rest.empty();) {
      const size_t end = std::min(rest.find('|'), rest.size());
      if (rest.substr(0, end) == text) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  }

  void look(const char* module) {
    if (told) return;
    if (!option.exists()) return (void)(told = true);  // not in this version of torch
    Owned<> value = option.value();
    if (!value || value.get() == accepted) return;
    if (means_the_same(value.get())) {
      if (PyBool_Check(value.get()) || PyUnicode_CheckExact(value.get())) accepted = value.release();
      return;
    }
    told = true;
    check(PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "gramme does not follow %s.%s = %R: %s", module, name, value.get(),
                           meaning));
  }
};

Setting kSettings[] = {
#define SETTING(name, values, meaning) {#name, values, meaning, {kConfig, #name}},
#include "api/settings.def"
#undef SETTING
};

Owned<> handler() {
  static PyObject* const name = intern("torch._dynamo.callback");
  PyObject* module = PyDict_GetItem(PyImport_GetModuleDict(), name);
  return module ? take(PyObject_GetAttrString(module, "callback_handler")) : Owned<>();
}

/// Null while it is not imported.
PyObject* dynamo_utils() {
  static PyObject* const name = intern("torch._dynamo.utils");
  return PyDict_GetItem(PyImport_GetModuleDict(), name);
}

bool has_items(PyObject* object, const char* list) {
  return PyObject_IsTrue(take(PyObject_GetAttrString(object, list)).get()) == 1;
}

}  // namespace

bool captures_are_disabled() {
  static Option disable(kConfig, "disable");
  return disable.is_set(environment_says("TORCH_COMPILE_DISABLE"));
}

int recompile_limit(std::optional<int> asked) {
  static Option limit(kConfig, "recompile_limit"), accumulated(kConfig, "accumulated_recompile_limit");
  return std::min(asked ? *asked : limit_of(limit, kDefaultLimit), limit_of(accumulated, kDefaultAccumulatedLimit));
}

bool is_recompile_error() {
  static Option option(kConfig, "error_on_recompile");
  return option.is_set(false);
}

bool is_recompile_limit_error() {
  static Option option(kConfig, "fail_on_recompile_limit_hit");
  return option.is_set(false);
}

bool is_break_error() {
  PyObject* module = dynamo_utils();
  return module && take(PyObject_CallMethod(module, "_get_error_on_graph_break", nullptr)).get() == Py_True;
}

void leave_break_error() { take(PyObject_CallMethod(dynamo_utils(), "_set_error_on_graph_break", "O", Py_False)); }

void warn_of_settings() {
  if (is_loaded(kConfig))
    for (Setting& setting : kSettings) setting.look(kConfig);
}

Compilation::Compilation(const runtime::FrameView& frame) {
  Owned<> known = handler();
  if (!known || (!has_items(known.get(), "start_callbacks") && !has_items(known.get(), "end_callbacks"))) return;
  running_ = take(PyObject_CallFunction(imported("gramme._settings", "compilation").get(), "OO", known.get(),
                                        frame.code->co_qualname));
}

void Compilation::finish() {
  if (Owned<> running = std::move(running_)) take(PyObject_CallMethod(running.get(), "close", nullptr));
}

Compilation::~Compilation() {
  if (!running_) return;
  apart([&] { finish(); });  // where it is interrupted, that is raised instead
}

}  // namespace gramme::api
