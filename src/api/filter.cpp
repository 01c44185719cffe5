// Decides which guards may be dropped, and applies the answers of the program's function.
#include "api/filter.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "backend/captured.h"
#include "base/imported.h"

namespace gramme::api {
namespace {

using guards::Fact;
using guards::Kind;
using source::Source;

/// True if facts of this kind only ensure that the program would decide the same. Others are also needed to find the
/// graph's inputs, and for kernels that rely on them.
bool is_only_a_condition(Kind kind) {
  static constexpr Kind kConditions[] = {Kind::Constant, Kind::Identity, Kind::Absent,     Kind::Code,
                                         Kind::SetIs,    Kind::Warning,  Kind::Subclasses, Kind::Subclass};
  return std::ranges::find(kConditions, kind) != std::end(kConditions);
}

/// Sources that are read, or from which others are read.
std::unordered_set<const Source*> inner_sources(const plan::GuardDescription& guards) {
  std::unordered_set<const Source*> result;
  const auto add = [&](const Source* source) {
    for (source = source->base; source; source = source->base) result.insert(source);
  };
  for (const Fact& fact : guards.facts) {
    add(fact.source);
    if (fact.other) add(fact.other);
  }
  for (const Source* read : guards.reads) add(read), result.insert(read);
  for (const Source* symbol : guards.shapes.symbols)
    if (symbol) add(symbol);
  return result;
}

Owned<> text(const std::string& string) {
  return take(PyUnicode_DecodeUTF8(string.data(), static_cast<Py_ssize_t>(string.size()), "replace"));
}

}  // namespace

void filter_guards(PyObject* function, plan::Segment& segment) {
  const plan::GuardDescription& guards = segment.guards.description();
  const std::unordered_set<const Source*> inner = inner_sources(guards);
  std::vector<const Source*> sources;
  Owned<> facts = take(PyList_New(0));
  std::vector<bool> may_go;
  for (const Fact& fact : guards.facts) {
    may_go.push_back(is_only_a_condition(fact.kind) && !inner.contains(fact.source));
    sources.push_back(fact.source);
    PyObject* value = fact.object ? fact.object.get() : Py_None;
    Owned<> row = take(Py_BuildValue("(sOOOO)", guards::kind_name(fact.kind), text(fact.source->print()).get(), value,
                                     may_go.back() ? Py_True : Py_False, text(fact.print()).get()));
    check(PyList_Append(facts.get(), row.get()));
  }
  const Owned<> answers = take(PyObject_CallFunction(imported("gramme._guard_filter", "ask").get(), "OOO", function,
                                                     backend::source_rows(guards, sources).get(), facts.get()));
  std::vector<Fact> kept;
  for (size_t i = 0; i < may_go.size(); ++i)
    if (!may_go[i] || PyList_GET_ITEM(answers.get(), static_cast<Py_ssize_t>(i)) == Py_True)
      kept.push_back(guards.facts[i]);
  if (kept.size() != guards.facts.size()) segment.guards.replace(std::move(kept));
}

}  // namespace gramme::api
