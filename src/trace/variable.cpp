// The names come from the frames' variables and from the spelling of sources.
#include "trace/variable.h"

#include "base/text.h"
#include "graph/place.h"
#include "trace/inliner.h"

namespace gramme::trace {

using namespace value;

namespace {

/// "L['self'].seen" as the program spells it ("self.seen"); empty if it has no spelling.
std::string spelled(const source::Source* source) {
  const std::string text = source ? source->print() : std::string();
  const bool variable = text.starts_with("L['") || text.starts_with("G['");
  const size_t end = variable ? text.find("']", 3) : std::string::npos;
  if (end == std::string::npos) return {};
  const std::string rest = text.substr(end + 2);
  const bool plain = rest.find("__") == std::string::npos && rest.find('(') == std::string::npos;
  return plain ? text.substr(3, end - 3) + rest : std::string();
}

std::string place(Inliner* inliner) {
  const std::string whole = graph::place(inliner ? inliner->position() : nullptr);
  const size_t folder = whole.rfind('/');
  return whole.empty() ? whole : " in " + whole.substr(folder == std::string::npos ? 0 : folder + 1);
}

}  // namespace

std::string named(Inliner* inliner, const Value* value, PyObject* attribute) {
  if (value->kind == Kind::Namespace && attribute) return "`" + utf8_of(attribute) + "`" + place(inliner);  // a global
  std::string name = inliner ? inliner->variable_of(value) : std::string();
  if (name.empty()) name = spelled(value->source);
  const std::string kind = std::string("a ") + kind_name(value->kind);
  if (!attribute) return (name.empty() ? kind : "`" + name + "`") + place(inliner);
  const std::string member = utf8_of(attribute);
  return "`" + (name.empty() ? member + "` of " + kind : name + "." + member + "`") + place(inliner);
}

}  // namespace gramme::trace
