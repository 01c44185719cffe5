// The words that stand for dicts, as entries or as attributes: by the evidence that is in use.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/process.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "plan/evidence.h"
#include "plan/recorder.h"
#include "plan/walk.h"

namespace gramme::plan {
namespace {

using SourceKind = source::Kind;

constexpr std::array<const char*, 3> kNames{"tags", "watched", "slots"};  // names of DictEvidence

bool is_had(DictEvidence evidence) {
  switch (evidence) {
    case DictEvidence::Tags:
      return GRAMME_PYTHON_DICT_VERSIONS;
    case DictEvidence::Watched:
      return cpython::can_watch_dicts();
    case DictEvidence::Slots:
      return true;
  }
  return false;
}

DictEvidence best() {
  return is_had(DictEvidence::Tags)      ? DictEvidence::Tags
         : is_had(DictEvidence::Watched) ? DictEvidence::Watched
                                         : DictEvidence::Slots;
}

struct State {
  std::optional<DictEvidence> evidence;  // GIL, a word: chosen at its first use
};
OfProcess<State> state;

DictEvidence dict_evidence() {
  if (state->evidence) [[likely]]
    return *state->evidence;
  const char* wanted = std::getenv("GRAMME_EVIDENCE");
  if (!wanted || !use_evidence(wanted)) state->evidence = best();
  return *state->evidence;
}

}  // namespace

bool use_evidence(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto evidence = static_cast<DictEvidence>(i);
    if (name != kNames[i] || !is_had(evidence)) continue;
    state->evidence = evidence;
    return true;
  }
  return false;
}

const char* evidence_name() { return kNames[static_cast<size_t>(dict_evidence())]; }

bool Recorder::add_dict(PyObject* dict, uint32_t needs) {
  switch (dict_evidence()) {
    case DictEvidence::Tags:
#if GRAMME_PYTHON_DICT_VERSIONS
      add_number(cpython::dict_version_address(dict), Cause::Versioned);
#endif
      break;
    case DictEvidence::Watched:
      if (add_watch(dict)) break;
      [[fallthrough]];
    case DictEvidence::Slots:
      add_table(dict, needs);
      return false;
  }
  if ((needs & kOrder) && cpython::is_ordered_dict(dict))
    add_number(cpython::ordered_dict_state_address(dict), Cause::Versioned);
  return true;
}

bool Recorder::add_watch(PyObject* dict) {
  cpython::DictWatch watch = cpython::watch_dict(dict, block_.alarm_);
  if (!watch) return false;
  block_.scratch_.watches.push_back({index_, std::move(watch)});
  return true;
}

/// True if what add_dict() did for the step's dict stands for all that the dict holds.
bool Recorder::is_stamped(int32_t step, PyObject* dict) const {
  if (dict_evidence() == DictEvidence::Tags) return true;
  const auto is_that = [&](const Watched& each) {
    return each.step == static_cast<uint32_t>(step) && each.watch.is_of(dict);
  };
  const std::vector<Watched>& watches =
      static_cast<uint32_t>(step) < first_ ? block_.watches_ : block_.scratch_.watches;
  return std::any_of(watches.rbegin(), watches.rend(), is_that);
}

/// Words for a dict's table; entries that children read get their own words.
void Recorder::add_table(PyObject* dict, uint32_t needs) {
  cpython::Words words;
  bool known = true;
  if (needs & (kContent | kKeys | kOrder)) cpython::dict_table_words(dict, words);
  if (needs & (kKeys | kOrder)) {
    Owned<> keys;
    known = cpython::dict_key_words(dict, words, keys);
    hold_key(std::move(keys));
  }
  if (needs & kSize) words.push_back(cpython::dict_size_word(dict));
  for (const uint64_t* address : words) add_number(address, Cause::Moved);
  if (!known) add_unstamped();
}

void Recorder::hold_key(Owned<> key) {
  Owned<>& held = mark(index_).keys;
  held = held && key ? take(PyTuple_Pack(2, held.get(), key.get())) : held ? std::move(held) : std::move(key);
}

/// A key that equals the one looked up, and its value.
bool Recorder::add_entry(int32_t step, PyObject* dict, PyObject* key, PyObject* value) {
  if (!value) return true;  // the base has words for all keys
  if (is_stamped(step, dict)) return true;
  PyObject** address = cpython::dict_key_address(dict, key);
  if (address) hold_key(share(*address));
  add_field(address, address ? *address : nullptr);
  add_field(cpython::dict_value_address(dict, key), value);
  return false;
}

template <>
bool Recorder::add_own<SourceKind::Value>(const Step& step, PyObject* base, PyObject* value) {
  return add_entry(step.base, base, step.key, value);
}

/// Words of the base vouch for its keys and hold them, or the base is read in every check.
template <>
bool Recorder::add_own<SourceKind::KeyAt>(const Step&, PyObject*, PyObject*) {
  return true;
}

template <>
bool Recorder::add_own<SourceKind::ValueAt>(const Step& step, PyObject* base, PyObject* value) {
  if (!value || is_stamped(step.base, base)) return true;
  if (cpython::is_ordered_dict(base))
    return add_entry(step.base, base, cpython::ordered_dict_key(base, step.index), value);
  add_field(cpython::dict_entry_address(base, step.index), value);
  return false;
}

template <>
bool Recorder::add_own<SourceKind::Attr>(const Step& step, PyObject* base, PyObject* value) {
  if (PyType_Check(base)) return add_entry(step.base, type_dict(base), step.key, value);
  if (!cpython::has_inline_values(base)) {
    PyObject* dict = cpython::instance_dict_if_any(base);
    return !dict || add_entry(step.base, dict, step.key, value);
  }
  Py_ssize_t index = cpython::shared_key_index(Py_TYPE(base), step.key);
  if (index >= 0)
    add_pointer(cpython::inline_value_address(base, index), value);
  else
    add_absent_inline(base);
  return false;
}

/// For an absent attribute that no instance of the type has yet: gaining it would change the instance's insertion
/// order.
void Recorder::add_absent_inline(PyObject* base) {
  cpython::Words words;
  cpython::inline_order_words(base, words);
  for (const uint64_t* address : words) add_number(address, Cause::Moved);
}

/// Words for where attributes are: inline values, a dict, or neither.
void Recorder::add_attributes(PyObject* object, uint32_t needs) {
  if (PyType_Check(object)) {
    add_dict(type_dict(object), kContent | needs);
    return;
  }
  PyObject** dict = cpython::instance_dict_address(object);
  if (!dict) return;  // the type has no attribute dict
  if (cpython::has_managed_dict(Py_TYPE(object)) && !*dict) {
    add_number(cpython::inline_word_address(object), Cause::Moved);
    mark(index_).same_dict = true;
  }
  if (cpython::has_inline_values(object)) return;
  add_pointer(dict, *dict);
  mark(index_).same_dict = true;
  if (*dict) add_dict(*dict, kContent | needs);
}

/// Words for a class's subclasses. CPython keeps them in a dict, made for the first one: weak references by address.
void Recorder::add_subclasses(PyObject* cls) {
  if (!PyType_Check(cls)) return;
  PyObject** below = cpython::subclasses_address(reinterpret_cast<PyTypeObject*>(cls));
  add_pointer(below, *below);
  if (!*below) return;
  if (add_dict(*below, kContent | kKeys)) return;
  for (Py_ssize_t i = 0; PyObject** value = cpython::dict_entry_address(*below, i); ++i) add_pointer(value, *value);
}

}  // namespace gramme::plan
