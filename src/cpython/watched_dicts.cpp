// The table of watched dicts with their alarms, and the one watcher that gramme asks CPython for.
#include "cpython/watched_dicts.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/process.h"
#include "cpython/features.h"

namespace gramme::cpython {

struct WatchedDict {
  struct Use {
    Alarm* alarm;
    size_t count;
  };
  PyObject* dict;  // null once it is gone
  uint64_t changes = 0;
  bool was_told = false;  // the alarms are raised, and nobody has renewed a watch since
  bool restless = false;
  std::vector<Use> uses;

  auto use_of(const Alarm* alarm) {
    return std::find_if(uses.begin(), uses.end(), [&](const Use& use) { return use.alarm == alarm; });
  }
  void add(Alarm* alarm) {
    if (auto use = use_of(alarm); use != uses.end())
      ++use->count;
    else
      uses.push_back({alarm, 1});
  }
  void tell() {
    ++changes;
    if (was_told) return;
    was_told = true;
    for (const Use& use : uses) use.alarm->raise();
  }
};

namespace {

constexpr int kNotAsked = -2;

/// Dicts change until the process ends.
struct State {
  std::unordered_map<PyObject*, std::unique_ptr<WatchedDict>> dicts;  // GIL
  int watcher = kNotAsked;  // GIL, a word: CPython's number; -1 if none is left

  size_t size() const { return dicts.size(); }
};
Lasting<State> state;

#if GRAMME_PYTHON_DICT_WATCHERS

/// Called before the dict changes, with the GIL. May not look at the dict, run Python or fail.
int tell_of_change(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  auto found = state->dicts.find(dict);
  if (found == state->dicts.end()) return 0;
  found->second->tell();
  if (event != PyDict_EVENT_DEALLOCATED) return 0;
  found->second->dict = nullptr;
  found->second.release();  // its last use deletes it
  state->dicts.erase(found);
  return 0;
}

/// Asked for once; -1 if none is left.
int watcher() {
  int& number = state->watcher;
  if (number == kNotAsked) {
    number = PyDict_AddWatcher(tell_of_change);
    if (number < 0) PyErr_Clear();
  }
  return number;
}

bool start(PyObject* dict) {
  if (PyDict_Watch(watcher(), dict) == 0) return true;
  PyErr_Clear();
  return false;
}

void stop(PyObject* dict) {
  if (Py_IsFinalizing()) return;  // CPython may have forgotten its watchers, and us with them
  if (PyDict_Unwatch(watcher(), dict) < 0) PyErr_Clear();
}

#else

int watcher() { return -1; }
bool start(PyObject*) { return false; }
void stop(PyObject*) {}

#endif

void end_use(WatchedDict* watched, const Alarm* alarm) {
  auto use = watched->use_of(alarm);
  if (--use->count > 0) return;
  watched->uses.erase(use);
  if (!watched->uses.empty()) return;
  if (!watched->dict) {
    delete watched;
    return;
  }
  stop(watched->dict);
  state->dicts.erase(watched->dict);
}

}  // namespace

DictWatch::DictWatch(WatchedDict* dict, Alarm* alarm) : dict_(dict), alarm_(alarm) {
  dict_->add(alarm_);
  renew();
}

DictWatch::~DictWatch() {
  if (dict_) end_use(dict_, alarm_);
}

bool DictWatch::is_of(PyObject* dict) const { return dict_ && dict_->dict == dict; }
bool DictWatch::has_changed() const { return dict_ && dict_->changes != expected_; }
bool DictWatch::is_over() const { return dict_ && (!dict_->dict || dict_->restless); }
void DictWatch::give_up() { dict_->restless = true; }

void DictWatch::renew() {
  if (!dict_ || !dict_->dict) return;
  expected_ = dict_->changes;
  dict_->was_told = false;
}

bool can_watch_dicts() { return watcher() >= 0; }

DictWatch watch_dict(PyObject* dict, Alarm& alarm) {
  if (!can_watch_dicts()) return {};
  std::unique_ptr<WatchedDict>& watched = state->dicts[dict];
  if (!watched) {
    if (!start(dict)) {
      state->dicts.erase(dict);
      return {};
    }
    watched = std::make_unique<WatchedDict>(WatchedDict{.dict = dict});
  }
  if (watched->restless) return {};
  return {watched.get(), &alarm};
}

size_t watched_dicts() { return state->dicts.size(); }

}  // namespace gramme::cpython
