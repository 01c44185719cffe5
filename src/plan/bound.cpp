// Comparing words and repairing those that differ: the affected steps are read again, their words recorded in place of
// the old ones, and on failure everything is put back.
#include "plan/bound.h"

#include <algorithm>
#include <iterator>

#include "cpython/features.h"
#include "cpython/objects.h"
#include "plan/recorder.h"
#include "plan/walk.h"

namespace gramme::plan {

OfProcess<Scratch> scratch_of_all;

Block::Block(const Program& program, uint32_t begin, uint32_t end, Scratch& scratch, Dropped& dropped)
    : program_(program),
      scratch_(scratch),
      dropped_(dropped),
      begin_(begin),
      end_(end),
      begins_(end - begin + 1),
      marks_(end - begin) {
  for (uint32_t i = begin; i < end; ++i)
    if (program.steps[i].spec) tensors_.push_back({i, program.steps[i].spec});
}

void Block::unbind() {
  if (!bound_) return;
  bound_ = false;
  root_ = nullptr;
  words_.clear();
  origins_.clear();
  watches_.clear();
  alarm_.clear();
  for (Mark& mark : marks_) forget(mark);
}

bool Block::bind(PyObject* root, PyObject** registers) {
  keep(begin_, end_, registers);
  for (uint32_t i = begin_; i < end_; i = program_.steps[i].end)
    registers[i] = program_.steps[i].kind == source::Kind::Pinned ? program_.steps[i].key : root;
  Recorder recorder(*this, registers);
  if (!recorder.record(begin_, end_)) {
    put_back(begin_, end_, registers);
    scratch_.watches.clear();
    return false;
  }
  watches_.assign(std::make_move_iterator(scratch_.watches.begin()), std::make_move_iterator(scratch_.watches.end()));
  scratch_.watches.clear();
  alarm_.clear();
  words_.assign(scratch_.words.begin(), scratch_.words.end());
  origins_.assign(scratch_.origins.begin(), scratch_.origins.end());
  std::copy(scratch_.begins.begin(), scratch_.begins.end(), begins_.begin());
  begins_.back() = static_cast<uint32_t>(words_.size());
  forget_kept();
  bound_ = true;
  root_ = root;
  return true;
}

[[gnu::hot]] bool Block::holds(PyObject** registers) {
  rereads_ = 0;
  if constexpr (GRAMME_PYTHON_DICT_WATCHERS) {
    if (alarm_.is_raised()) [[unlikely]]
      return holds_after_changes(registers);
    alarms_ = 0;
  }
  const Word* word = words_.data();
  const Word* end = word + words_.size();
  for (; word < end; ++word) {
    if (*word->address == word->expected) [[likely]]
      continue;
    if (!repair_from(static_cast<size_t>(word - words_.data()), registers)) return false;
    break;
  }
  return aten::all_match(tensors_.data(), tensors_.size(), registers);
}

/// Checks the rest of the words, from the first that differs, repairing as it goes.
[[gnu::hot]] bool Block::repair_from(size_t first, PyObject** registers) {
  WithoutCollection no_finalizers;
  return repair_until(&first, end_, registers);
}

/// The words of all steps before `last`. The next word is past them, and past what was read anew.
[[gnu::hot]] bool Block::repair_until(size_t* next, uint32_t last, PyObject** registers) {
  const Word* word = words_.data() + *next;
  const Word* end = words_.data() + begins_[last - begin_];
  for (; word < end; ++word) {
    if (*word->address == word->expected) [[likely]]
      continue;
    if (!repair(static_cast<size_t>(word - words_.data()), registers, next)) return false;
    word = words_.data() + *next - 1;
    end = words_.data() + begins_[last - begin_];
  }
  *next = static_cast<size_t>(word - words_.data());
  return true;
}

/// CPython told of changes of dicts that are watched.
bool Block::holds_after_changes(PyObject** registers) {
  WithoutCollection no_finalizers;
  ++alarms_;
  alarm_.clear();
  if (settle(registers)) return aten::all_match(tensors_.data(), tensors_.size(), registers);
  alarm_.raise();  // the changed dicts were not read again
  return false;
}

/// In order of the steps: what a dict holds is read again after the words above have shown where the dict is.
bool Block::settle(PyObject** registers) {
  size_t word = 0;
  for (uint32_t step = begin_; step < end_; ++step) {
    const std::span<Watched> rest = watches_of(step, end_);
    const auto next =
        std::find_if(rest.begin(), rest.end(), [](const Watched& each) { return each.watch.has_changed(); });
    if (next == rest.end()) break;
    step = next->step;
    if (!repair_until(&word, step + 1, registers)) return false;
    if (has_changed(step) && !look_again(step, registers, &word)) return false;
  }
  return repair_until(&word, end_, registers);
}

/// Those of steps [first, last).
std::span<Watched> Block::watches_of(uint32_t first, uint32_t last) {
  const auto is_before = [](const Watched& each, uint32_t step) { return each.step < step; };
  const auto begin = std::lower_bound(watches_.begin(), watches_.end(), first, is_before);
  return {begin, std::lower_bound(begin, watches_.end(), last, is_before)};
}

bool Block::has_changed(uint32_t step) {
  const std::span<Watched> here = watches_of(step, step + 1);
  return std::any_of(here.begin(), here.end(), [](const Watched& each) { return each.watch.has_changed(); });
}

/// A dict that changes before each call gets words for what is looked at in it.
bool Block::look_again(uint32_t step, PyObject** registers, size_t* word) {
  constexpr uint32_t kPatience = 8;
  bool is_over = false;
  for (Watched& each : watches_of(step, step + 1)) {
    if (!each.watch.has_changed()) continue;
    if (alarms_ > kPatience) each.watch.give_up();
    is_over |= each.watch.is_over();
  }
  if (!is_over) return refresh(step, registers);
  if (!reread(step, registers)) return false;
  *word = begins_[program_.steps[step].end - begin_];
  return true;
}

/// Repairs at a differing word. Words before it held, so the objects that its step is read from are alive and
/// unchanged.
bool Block::repair(size_t word, PyObject** registers, size_t* next) {
  Origin origin = origins_[word];
  if (origin.cause == Cause::Versioned) {
    *next = word + 1;
    return refresh(origin.step, registers);
  }
  if (!reread(origin.step, registers)) return false;
  *next = begins_[program_.steps[origin.step].end - begin_];
  return true;
}

bool Block::reread(uint32_t step, PyObject** registers) {
  ++rereads_;
  uint32_t last = program_.steps[step].end;
  keep(step, last, registers);
  Recorder recorder(*this, registers);
  if (!recorder.record(step, last)) {
    put_back(step, last, registers);
    scratch_.watches.clear();
    return false;
  }
  forget_kept();
  splice(step, last);
  return true;
}

bool Block::refresh(uint32_t index, PyObject** registers) {
  const Step& step = program_.steps[index];
  if (!passes(program_, step, registers[index])) return false;
  for (uint32_t child = index + 1; child < step.end; child = program_.steps[child].end) {
    PyObject* now;
    Outcome outcome = read_child(program_.steps[child], registers[index], &now);
    if (outcome != (program_.steps[child].absent ? Outcome::Absent : Outcome::Found)) return false;
    // A different object at the old address passes only if its type is the same; its words then differ.
    bool same = now == registers[child] && (!now || Py_TYPE(now) == marks_[child - begin_].type);
    if (!same && !reread(child, registers)) return false;
  }
  renew_stamps(index);
  return true;
}

void Block::renew_stamps(uint32_t step) {
  for (uint32_t i = begins_[step - begin_]; i < begins_[step + 1 - begin_]; ++i) {
    if (origins_[i].cause != Cause::Versioned || words_[i].address == &kNever) continue;
    words_[i].expected = *words_[i].address;
    if (words_[i].expected == 0) words_[i] = {&kNever, 1};  // the type got no new tag, so the word must never match
  }
  for (Watched& each : watches_of(step, step + 1)) each.watch.renew();
}

/// Replaces the words of steps [first, last) by the recorded ones.
void Block::splice(uint32_t first, uint32_t last) {
  uint32_t from = begins_[first - begin_], to = begins_[last - begin_];
  auto count = static_cast<uint32_t>(scratch_.words.size());
  if (count != to - from) {
    words_.erase(words_.begin() + from, words_.begin() + to);
    origins_.erase(origins_.begin() + from, origins_.begin() + to);
    words_.insert(words_.begin() + from, count, Word{});
    origins_.insert(origins_.begin() + from, count, Origin{});
    for (size_t i = last - begin_; i < begins_.size(); ++i) begins_[i] += count - (to - from);
  }
  std::copy(scratch_.words.begin(), scratch_.words.end(), words_.begin() + from);
  std::copy(scratch_.origins.begin(), scratch_.origins.end(), origins_.begin() + from);
  for (uint32_t i = first; i < last; ++i) begins_[i - begin_] = from + scratch_.begins[i - first];
  const std::span<Watched> old = watches_of(first, last);
  const auto begin = watches_.begin() + (old.data() - watches_.data());
  const auto rest = watches_.erase(begin, begin + static_cast<ptrdiff_t>(old.size()));
  watches_.insert(rest, std::make_move_iterator(scratch_.watches.begin()),
                  std::make_move_iterator(scratch_.watches.end()));
  scratch_.watches.clear();
}

void Block::keep(uint32_t first, uint32_t last, PyObject** registers) {
  scratch_.kept_registers.assign(registers + first, registers + last);
  scratch_.kept_marks.assign(marks_.begin() + (first - begin_), marks_.begin() + (last - begin_));
}

void Block::put_back(uint32_t first, uint32_t last, PyObject** registers) {
  std::copy(scratch_.kept_registers.begin(), scratch_.kept_registers.end(), registers + first);
  for (uint32_t i = first; i < last; ++i) forget(marks_[i - begin_]);
  std::move(scratch_.kept_marks.begin(), scratch_.kept_marks.begin() + (last - first),
            marks_.begin() + (first - begin_));
  scratch_.kept_marks.clear();
}

/// Releases a mark's references into `dropped`, since they may be the last ones.
void Block::forget(Mark& mark) {
  if (mark.held) dropped_.push_back(std::move(mark.held));
  if (mark.keys) dropped_.push_back(std::move(mark.keys));
  mark = Mark{};
}

void Block::forget_kept() {
  for (Mark& mark : scratch_.kept_marks) forget(mark);
  scratch_.kept_marks.clear();
}

}  // namespace gramme::plan
