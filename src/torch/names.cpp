// Joins torch_names.def of the first folder with torch_changes.def of this version at compile time, and finds the
// objects at run time.
#include "torch/names.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/imported.h"

namespace gramme::of_torch {
namespace {

struct Tables {
  Place names[kNames] = {
#define NAME(id, module, name) {module, name},
#include "torch/2_13/torch_names.def"
#undef NAME
  };
  Place codes[kCodes] = {
#define CODE(id, file, name) {file, name},
#include "torch/2_13/torch_names.def"
#undef CODE
  };
  const char* attributes[kAttributes + 1] = {
#define ATTRIBUTE(id, file, name) name,
#include "torch/2_13/torch_names.def"
#undef ATTRIBUTE
  };
};

/// The first folder's tables with this version's changes.
constexpr Tables in_this_version() {
  Tables tables;
#define MOVED(id, module, name) tables.names[id] = {module, name};
#define MOVED_CODE(id, file, name) tables.codes[id] = {file, name};
#define GONE_CODE(id, why) tables.codes[id] = {};
#define RENAMED(id, file, name) tables.attributes[id] = name;
#include "torch_changes.def"
#undef MOVED
#undef MOVED_CODE
#undef GONE_CODE
#undef RENAMED
  return tables;
}
constexpr Tables kTables = in_this_version();

constexpr const char* kModuleTexts[kModules] = {
#define MODULE(id, module) module,
#include "torch/2_13/torch_names.def"
#undef MODULE
};
constexpr const char* kFileTexts[kFiles] = {
#define PATH(id, path) path,
#include "torch/2_13/torch_names.def"
#undef PATH
};

constexpr std::string_view kMessageTexts[kMessages] = {
#define MESSAGE(id, text) text,
#include "torch/2_13/torch_names.def"
#undef MESSAGE
};

struct InGroup {
  PlaceGroup group;
  Place place;
};
constexpr InGroup kNamesOf[] = {
#define NAME_OF(group, module, name) {group, {module, name}},
#include "torch/2_13/torch_names.def"
#undef NAME_OF
};
constexpr InGroup kCodesOf[] = {
#define CODE_OF(group, file, name) {group, {file, name}},
#include "torch/2_13/torch_names.def"
#undef CODE_OF
};
struct TextInGroup {
  TextGroup group;
  const char* text;
};
constexpr TextInGroup kTextsOf[] = {
#define PATH_OF(group, path) {group, path},
#define MODULE_OF(group, module) {group, module},
#include "torch/2_13/torch_names.def"
#undef PATH_OF
#undef MODULE_OF
};

std::atomic<PyObject*> attributes[kAttributes + 1];

/// Stores the object unless another thread was first; returns the stored one.
PyObject* keep(std::atomic<PyObject*>& slot, PyObject* made) {
  PyObject* known = nullptr;
  return slot.compare_exchange_strong(known, made, std::memory_order_acq_rel) ? made : known;
}

/// The object at a dotted path; null with an exception.
Owned<> found_in(PyObject* module, std::string_view path) {
  Owned<> found = share(module);
  for (size_t at = 0; found && at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    found = Owned<>::steal(PyObject_GetAttrString(found.get(), std::string(path.substr(at, dot - at)).c_str()));
    at = dot + 1;
  }
  return found;
}

/// The str's UTF-8; empty if it has a lone surrogate.
std::string_view text_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (!utf8) PyErr_Clear();
  return utf8 ? std::string_view(utf8, static_cast<size_t>(size)) : std::string_view();
}

/// The module if it is fully imported: one that another thread is still importing lacks names.
PyObject* loaded(const char* name) {
  PyObject* module = known_module(name);
  return module && !is_being_imported(module) ? module : nullptr;
}

std::string folder_of_torch() {
  PyObject* torch = loaded("torch");
  Owned<> file = Owned<>::steal(torch ? PyObject_GetAttrString(torch, "__file__") : nullptr);
  const char* path = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  PyErr_Clear();
  return path ? std::filesystem::path(path).parent_path().parent_path().string() + "/" : "";
}

bool is_module(const std::string& root, std::string name) {
  std::ranges::replace(name, '.', '/');
  return std::filesystem::exists(root + name + ".py") || std::filesystem::exists(root + name + "/__init__.py");
}

}  // namespace

namespace internal {

std::atomic<PyObject*> known[kNames];

PyObject* look_up(Name id) {
  const auto& [where, name] = kTables.names[id];
  Owned<> module = take(import_module(where));
  return keep(known[id], take(found_in(module.get(), name).release()).release());
}

}  // namespace internal

Place place(Name id) { return kTables.names[id]; }
Place place(Code id) { return kTables.codes[id]; }
std::string spelled(Name id) { return std::string(kTables.names[id].where) + "." + kTables.names[id].name; }
const char* text(Module id) { return kModuleTexts[id]; }
const char* text(Attribute id) { return kTables.attributes[id]; }

std::span<const Place> places(PlaceGroup group) {
  static const auto* const all = [] {  // no Python: texts
    auto* made = new std::array<std::vector<Place>, Capturable + 1>;
    for (const InGroup& row : kNamesOf) made->at(row.group).push_back(row.place);
    for (const InGroup& row : kCodesOf) made->at(row.group).push_back(row.place);
    return made;
  }();
  return all->at(group);
}

std::span<const char* const> texts(TextGroup group) {
  static const auto* const all = [] {  // no Python: texts
    auto* made = new std::array<std::vector<const char*>, PackageOfOperators + 1>;
    for (const TextInGroup& row : kTextsOf) made->at(row.group).push_back(row.text);
    return made;
  }();
  return all->at(group);
}

PyObject* if_loaded(Name id) {
  if (PyObject* object = internal::known[id].load(std::memory_order_acquire)) return object;
  PyObject* const module = loaded(kTables.names[id].where);
  Owned<> found = module ? found_in(module, kTables.names[id].name) : Owned<>();
  if (!found) PyErr_Clear();
  return found ? keep(internal::known[id], found.release()) : nullptr;
}

PyObject* if_loaded(Module id) { return loaded(kModuleTexts[id]); }

PyObject* attribute(Attribute id) {
  PyObject* known = attributes[id].load(std::memory_order_acquire);
  return known ? known : keep(attributes[id], PyUnicode_InternFromString(kTables.attributes[id]));
}

bool is_within(PyObject* module_name, Module package) {
  const std::string_view name = text_of(module_name), start = kModuleTexts[package];
  return name.size() > start.size() && name.starts_with(start) && name[start.size()] == '.';
}

bool is_in(PyObject* file_name, File id) {
  const std::string_view text = text_of(file_name), wanted = kFileTexts[id];
  return wanted.ends_with('/') ? text.find(wanted) != std::string_view::npos : text.ends_with(wanted);
}

bool says(std::string_view message, Message id) { return message.find(kMessageTexts[id]) != std::string_view::npos; }

std::vector<std::string> missing(bool imports) {
  std::vector<std::string> lacking;
  const std::string root = folder_of_torch();
  auto need_file = [&](const char* path) {
    if (!std::filesystem::exists(root + path)) lacking.emplace_back(path);
  };
  auto need_name = [&](const Place& place) {
    const auto& [where, name] = place;
    if (imports) Owned<>::steal(import_module(where));
    PyErr_Clear();
    PyObject* module = loaded(where);
    const bool there = module ? static_cast<bool>(found_in(module, name)) : is_module(root, where);
    PyErr_Clear();
    if (!there) lacking.push_back(module ? std::string(where) + "." + name : where);
  };
  std::ranges::for_each(kTables.names, need_name);
  for (const InGroup& row : kNamesOf) need_name(row.place);
  for (const char* module : kModuleTexts)
    if (!loaded(module) && !is_module(root, module)) lacking.emplace_back(module);
  for (const char* file : kFileTexts) need_file(file);
  for (const Place& place : kTables.codes)
    if (place.where) need_file(place.where);
  for (const InGroup& row : kCodesOf) need_file(row.place.where);
  std::ranges::sort(lacking);
  lacking.erase(std::ranges::unique(lacking).begin(), lacking.end());
  return lacking;
}

}  // namespace gramme::of_torch
