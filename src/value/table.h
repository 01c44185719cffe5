// An insertion-ordered hash table from values to values, for dicts and sets. Keys compare as in Python: constants and
// tuples of them by value, others by identity.
#pragma once
#include <Python.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace gramme::value {

struct Value;

/// False for keys that gramme does not model, such as those of a class with its own __eq__: using one ends the segment.
bool hashable(Value* key);
/// True for a result of id(), or a hook's id: an unknown int that is the same for the same object.
bool is_address(Value* key);
/// Python's hash for constants, identity for the rest.
size_t hash_key(Value* key);
/// Python's == for constants and tuples, identity for the rest. Keys must be seen.
bool equal_keys(Value* a, Value* b);

class Table {
 public:
  struct Entry {
    Value* key;    // null: deleted
    Value* value;  // null in sets
    size_t hash;
    bool changed;           // existing dict: written by the program
    bool original = false;  // existing dict: present before the capture
  };
  Entry* find(Value* key);
  /// Allows a key whose class has its own equality, until the keys change: the class was asked, and the key equals none
  /// of the others or is one of them. Other such keys end the segment.
  void admit(Value* key, size_t hash);
  bool admits(Value* key) const { return hashable(key) || key == admitted_; }
  /// The keys with exactly this hash, in order.
  std::vector<Value*> keys_of(size_t hash);
  /// True if a key was erased since the table was last empty. CPython may then compare later keys of a hash before
  /// earlier ones.
  bool has_holes() const { return holes_; }
  /// True if there is a key whose class has its own equality.
  bool has_own() const { return own_; }
  /// Sets the value under the key, at the end if it is new. Returns the entry.
  Entry& set(Value* key, Value* value);
  /// False if it was not there.
  bool erase(Value* key);
  void clear();
  size_t size() const { return live_; }
  /// A number that changes with the keys, also if another table replaces this one.
  uint64_t stamp() const { return stamp_; }
  /// The i-th live entry at or after position i in the underlying order; null at the end. Positions survive deletions.
  Entry* next(size_t& position);
  template <class F>
  void each(F&& f) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].key) f(entries_[i]);
  }
  /// The last live entry, or null.
  Entry* last();
  Entry* first();

 private:
  static constexpr size_t kLinear = 8;
  void index_all();
  size_t hash_of(Value* key) const;
  void changed();
  void refuse_undecided(Value* key);
  void refuse_own(Value* key, size_t hash);
  int64_t position_of(Value* key, size_t hash);
  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, uint32_t> index_;  // used above kLinear entries
  bool indexed_ = false;
  bool addresses_ = false;  // some key is, was or contains an address
  bool own_ = false;        // some key's class has or had its own equality
  bool holes_ = false;      // some key was erased
  bool others_ = false;     // some key is or was compared by identity
  Value* admitted_ = nullptr;
  size_t admitted_hash_ = 0;
  size_t live_ = 0;
  uint64_t stamp_ = 0;
};

}  // namespace gramme::value
