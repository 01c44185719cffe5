// Parses the signature in a C function's __doc__, falls back to its METH_ flags, and caches the result for each
// callable.
#include "protocol/accepted.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/process.h"
#include "base/ref.h"
#include "cpython/objects.h"

namespace gramme::protocol {

namespace {

/// The parameters of a callable, without self.
struct Accepted {
  std::vector<std::string> names;  // positional ones first ("" if nameless), then keyword-only ones
  std::vector<bool> needed;
  size_t by_position = 0;  // how many are positional
  bool more = false;       // *args
  bool any_name = false;   // **kwargs
  size_t selves = 0;       // leading arguments that do not count

  static Accepted anything() {
    Accepted all;
    all.more = all.any_name = true;
    return all;
  }
};

// ---- signatures in documentation: "name($self, a, b=None, /, *, key=1)\n--\n"

std::string_view signature_in(const char* doc) {
  if (!doc) return {};
  std::string_view text(doc);
  size_t end = text.find(")\n--\n"), open = text.find('(');
  return end == std::string_view::npos || open > end ? std::string_view() : text.substr(open + 1, end - open - 1);
}

/// Splits at commas outside of brackets and quotes.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  size_t from = 0;
  auto add = [&](size_t to) {
    std::string_view part = text.substr(from, to - from);
    part.remove_prefix(std::min(part.find_first_not_of(" \n"), part.size()));
    if (!part.empty()) parts.push_back(part);
    from = to + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (std::strchr("([{<", c)) {
      ++depth;
    } else if (std::strchr(")]}>", c)) {
      --depth;
    } else if (c == ',' && depth == 0) {
      add(i);
    }
  }
  add(text.size());
  return parts;
}

Accepted parsed(std::string_view signature) {
  Accepted found;
  bool by_name_only = false;
  for (std::string_view part : split(signature)) {
    if (part[0] == '$') continue;
    if (part == "/") {
      std::fill(found.names.begin(), found.names.end(), "");
    } else if (part.starts_with("**")) {
      found.any_name = true;
    } else if (part[0] == '*') {
      by_name_only = true;
      found.more = part.size() > 1;
    } else if (part[0] == '[') {  // optional groups "[, x]" do not say how many are required
      return Accepted::anything();
    } else {
      size_t end = part.find_first_of("=: ");
      found.names.emplace_back(part.substr(0, end));
      found.needed.push_back(part.find('=') == std::string_view::npos);
      if (!by_name_only) ++found.by_position;
    }
  }
  return found;
}

// ---- the kinds of callables

Accepted of_definition(const PyMethodDef* definition) {
  Accepted found = Accepted::anything();
  const int flags = definition->ml_flags;
  if (std::string_view text = signature_in(definition->ml_doc); !text.empty()) found = parsed(text);
  if (flags & METH_NOARGS) found = Accepted();
  if (flags & METH_O) {
    found = Accepted();
    found.names = {""};
    found.needed = {true};
    found.by_position = 1;
  }
  if (!(flags & METH_KEYWORDS)) {
    found.any_name = false;
    std::fill(found.names.begin(), found.names.end(), "");
  }
  return found;
}

/// The parameters of a slot wrapper. `__get__` may be called without an owner, contrary to its signature.
Accepted of_wrapper(PyObject* callable) {
  const wrapperbase* base = reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base;
  Accepted found = Accepted::anything();
  if (std::string_view text = signature_in(base->doc); !text.empty()) found = parsed(text);
  if (std::strcmp(base->name, "__get__") == 0 && found.needed.size() == 2) found.needed[1] = false;
  if (!(base->flags & PyWrapperFlag_KEYWORDS)) found.any_name = false;
  return found;
}

/// Parameters that cannot change while the callable lives. Python functions are excluded, since their defaults can.
Accepted described(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type)) {
    Accepted found = of_definition(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method);
    found.selves = 1;
    return found;
  }
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
    Accepted found = of_wrapper(callable);
    found.selves = 1;
    return found;
  }
  if (PyCFunction_Check(callable)) return of_definition(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml);
  if (PyType_Check(callable)) {
    std::string_view text = signature_in(reinterpret_cast<PyTypeObject*>(callable)->tp_doc);
    if (!text.empty()) return parsed(text);
  }
  return Accepted::anything();
}

struct State {
  std::unordered_map<PyObject*, Accepted> known;  // GIL: callables that have models, so they stay alive

  size_t size() const { return known.size(); }
};
OfProcess<State> state;

const Accepted& accepted(PyObject* callable) {
  auto found = state->known.find(callable);
  return found != state->known.end() ? found->second
                                     : state->known.emplace(callable, described(callable)).first->second;
}

}  // namespace

bool takes_as_many(PyObject* callable, const Args& args) {
  const Accepted& takes = accepted(callable);
  if (args.positional < takes.selves) return false;
  const size_t given = args.positional - takes.selves;
  if (given > takes.by_position && !takes.more) return false;
  std::vector<bool> named(args.keywords ? takes.names.size() : 0, false);
  for (size_t k = 0; k < args.keywords; ++k) {
    size_t i = 0;
    while (i < takes.names.size() &&
           (takes.names[i].empty() || PyUnicode_CompareWithASCIIString(args.names[k], takes.names[i].c_str()) != 0))
      ++i;
    const bool known = i < takes.names.size();
    if ((!known && !takes.any_name) || (known && i < std::min(given, takes.by_position))) return false;
    if (known) named[i] = true;
  }
  for (size_t i = 0; i < takes.names.size(); ++i)
    if (takes.needed[i] && (i >= takes.by_position || i >= given) && !(args.keywords && named[i])) return false;
  return true;
}

}  // namespace gramme::protocol
