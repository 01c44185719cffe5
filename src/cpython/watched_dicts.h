// Dicts of which CPython says when they change (PyDict_Watch), from 3.13 on.
//
//   Alarm alarm;
//   DictWatch watch = watch_dict(dict, alarm);
//   if (!alarm.is_raised()) ...        // neither this dict nor another one under the alarm has changed
//   if (watch.has_changed()) ...       // it is this one
//   watch.renew();                     // whoever asked has read the dict anew
//
// CPython tells before a dict changes, and before it frees one. So while no alarm is raised, the dict is alive and
// holds what it held. Not told are an OrderedDict's move_to_end(), another dict put in place of an instance's, and
// attributes of an instance that has no dict.
#pragma once
#include <Python.h>

#include <cstdint>
#include <utility>

namespace gramme::cpython {

/// A flag for a group of watched dicts. CPython raises it before one of them changes.
class Alarm {
 public:
  bool is_raised() const { return raised_; }
  void raise() { raised_ = true; }
  /// Later changes raise it again. Watches that have changed stay so until they are renewed.
  void clear() { raised_ = false; }

 private:
  bool raised_ = false;
};

struct WatchedDict;

/// One use of a watched dict. CPython watches it until the last use ends.
class DictWatch {
 public:
  DictWatch() = default;
  DictWatch(DictWatch&& other) noexcept
      : dict_(std::exchange(other.dict_, nullptr)), alarm_(other.alarm_), expected_(other.expected_) {}
  DictWatch& operator=(DictWatch other) noexcept {
    std::swap(dict_, other.dict_);
    std::swap(alarm_, other.alarm_);
    std::swap(expected_, other.expected_);
    return *this;
  }
  ~DictWatch();

  explicit operator bool() const { return dict_ != nullptr; }
  /// False also if that one is gone and another lies at its address.
  bool is_of(PyObject* dict) const;
  /// True if it has changed, or is gone, since the watch was made or renewed. Never reads the dict.
  bool has_changed() const;
  /// From now on a change is one of the dict as it is now. A dict that is gone stays changed.
  void renew();
  /// True if the dict is gone, or somebody has given it up.
  bool is_over() const;
  /// The dict changes too often: watch_dict() returns no more watches of it.
  void give_up();

 private:
  friend DictWatch watch_dict(PyObject* dict, Alarm& alarm);
  DictWatch(WatchedDict* dict, Alarm* alarm);

  WatchedDict* dict_ = nullptr;
  Alarm* alarm_ = nullptr;  // outlives its watches
  uint64_t expected_ = 0;
};

/// False if this version of CPython has no watchers, or other extensions have taken the few that there are.
bool can_watch_dicts();
/// Empty if can_watch_dicts() is false, or the dict changes too often.
DictWatch watch_dict(PyObject* dict, Alarm& alarm);
/// How many dicts are watched, for tests.
size_t watched_dicts();

}  // namespace gramme::cpython
