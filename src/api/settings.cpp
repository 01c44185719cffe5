// Reads PyTorch's settings, with PyTorch's defaults while its configuration is not imported.
#include "api/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/imported.h"
#include "base/interruption.h"
#include "base/process.h"
#include "torch/names.h"
#include "torch/option.h"

namespace gramme::api {
namespace {

constexpr int kDefaultLimit = 8, kDefaultAccumulatedLimit = 256;
constexpr int kHighestLimit = 1'000'000'000;

bool environment_says(const char* name) {
  const char* value = std::getenv(name);
  return value && std::string_view(value) == "1";
}

/// The option's number, clamped so that an int holds it.
int limit_of(Option& option, int otherwise) {
  Owned<> value = option.value();
  if (!value) return otherwise;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  if (PyErr_Occurred()) throw PythonError();
  if (overflow) return overflow > 0 ? kHighestLimit : -kHighestLimit;
  return static_cast<int>(std::clamp<int64_t>(number, -kHighestLimit, kHighestLimit));
}

/// A setting that gramme does not follow (torch_settings.def).
struct Setting {
  const char* name;
  std::string_view values;  // values that mean what gramme does
  const char* meaning;
  Option option;
  PyObject* accepted = nullptr;  // the last value found in order; held
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

struct State {
  Setting settings[0
#define SETTING(name, values, meaning) +1
#include "torch_settings.def"
#undef SETTING
  ] = {
#define SETTING(name, values, meaning) {#name, values, meaning, {of_torch::DynamoConfig, #name}},
#include "torch_settings.def"
#undef SETTING
  };  // GIL
};
Lasting<State> state;

Owned<> handler() { return share(of_torch::if_loaded(of_torch::CallbackHandler)); }

bool has_items(PyObject* object, const char* list) {
  return PyObject_IsTrue(take(PyObject_GetAttrString(object, list)).get()) == 1;
}

}  // namespace

bool captures_are_disabled() {
  static Option disable(of_torch::DynamoConfig, "disable");
  return disable.is_set(environment_says("TORCH_COMPILE_DISABLE"));
}

int recompile_limit(std::optional<int> asked) {
  static Option limit(of_torch::DynamoConfig, "recompile_limit"),
      accumulated(of_torch::DynamoConfig, "accumulated_recompile_limit");
  return std::min(asked ? *asked : limit_of(limit, kDefaultLimit), limit_of(accumulated, kDefaultAccumulatedLimit));
}

bool is_recompile_error() {
  static Option option(of_torch::DynamoConfig, "error_on_recompile");
  return option.is_set(false);
}

bool is_recompile_limit_error() {
  static Option option(of_torch::DynamoConfig, "fail_on_recompile_limit_hit");
  return option.is_set(false);
}

bool is_break_error() {
  PyObject* const get = of_torch::if_loaded(of_torch::GetErrorOnGraphBreak);
  return get && take(PyObject_CallNoArgs(get)).get() == Py_True;
}

void leave_break_error() { take(PyObject_CallOneArg(of_torch::object(of_torch::SetErrorOnGraphBreak), Py_False)); }

void warn_of_settings() {
  if (of_torch::if_loaded(of_torch::DynamoConfig))
    for (Setting& setting : state->settings) setting.look(of_torch::text(of_torch::DynamoConfig));
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
  apart([&] { finish(); });  // an interruption replaces the set exception
}

}  // namespace gramme::api
