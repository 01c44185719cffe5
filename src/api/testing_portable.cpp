// Test-only bindings of the room portable.
//
//   digest(code), encode(object), decode(bytes)
//   inventory(entry)              # of each segment: rows of (place, kind of reference, text, why it is not portable,
//                                 # the object)
//   rebind(True)                  # each new segment, and its graph, is made anew from its description and the call
//   rebind(True, look=function)   # ... and the function sees the torch.fx modules of both graphs
//   rebind(True, rows)            # ... from those descriptions, of another process, one after the other
//   rebound()                     # what that came to since it was asked last: "rows" are the descriptions, plain data
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/describe.h"
#include "api/rebinding.h"
#include "api/testing.h"
#include "backend/examples.h"
#include "backend/fx.h"
#include "backend/kept_graph.h"
#include "base/process.h"
#include "native/executor.h"
#include "portable/bind.h"
#include "portable/bound.h"
#include "portable/canonical.h"
#include "portable/describe.h"
#include "portable/digest.h"
#include "portable/lasting.h"
#include "runtime/entry.h"
#include "source/constant.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {

namespace {

using portable::ObjectRef;

/// What rebound() has counted since a test last asked.
struct Met {
  size_t segments = 0, graphs = 0, objects = 0, kept = 0;
  std::vector<std::string> wrong;
  std::vector<std::vector<ObjectRef>> refs;
  std::vector<std::vector<ObjectRef>> given;  // used instead of the segment's own descriptions
  Owned<> look;  // called with (module, examples) of each graph as it was captured, and of the one made anew
};

struct State {
  bool rebinds = false;  // GIL, a word
  Met met;               // GIL
};
OfProcess<State> state;

Met& met() { return state->met; }

plan::Roots roots_of(const runtime::FrameView& frame, std::vector<plan::Roots>& callers) {
  for (const runtime::WaitingView& caller : frame.callers)
    callers.push_back({caller.locals, caller.stack, caller.function});
  return {frame.locals,
          frame.stack,
          frame.function,
          frame.exception,
          frame.outer,
          callers.data(),
          static_cast<int>(callers.size())};
}

/// True if the found object is the original, or an equal constant.
bool is_the_one(const ObjectRef& ref, PyObject* object, PyObject* found) {
  if (ref.kind == ObjectRef::Kind::Set)
    return Py_IS_TYPE(found, Py_TYPE(object)) && source::same_elements(object, found);
  if (ref.kind == ObjectRef::Kind::Constant) {
    std::string bytes;
    return Py_TYPE(object) == Py_TYPE(found) && portable::encode(found, bytes) && bytes == ref.bytes;
  }
  if (ref.kind == ObjectRef::Kind::Bound) return portable::is_same_bound(object, found);
  if (ref.kind == ObjectRef::Kind::FrozenSet)  // members are found by name, so identity decides
    return PyObject_RichCompareBool(object, found, Py_EQ) == 1;
  if (ref.kind != ObjectRef::Kind::Tuple) return found == object;
  bool same = PyTuple_GET_SIZE(object) == PyTuple_GET_SIZE(found);
  for (size_t i = 0; same && i < ref.items.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    same = is_the_one(ref.items[i], PyTuple_GET_ITEM(object, at), PyTuple_GET_ITEM(found, at));
  }
  return same;
}

const char* kind_of(const ObjectRef& ref) {
  constexpr const char* kKinds[] = {"constant",  "named", "from the call", "bound",
                                    "frozenset", "tuple", "set",           "by identity"};
  return kKinds[static_cast<int>(ref.kind)];
}

/// The reason of the first part that is not portable; empty if all are.
std::string reason_of(const ObjectRef& ref) {
  if (ref.kind == ObjectRef::Kind::ByIdentity) return portable::unportable_name(ref.reason);
  for (const ObjectRef& item : ref.items)
    if (std::string reason = reason_of(item); !reason.empty()) return reason;
  return "";
}

nb::tuple row(const char* place, PyObject* object, const ObjectRef& ref, const source::Pool& pool) {
  return nb::make_tuple(place, kind_of(ref), ref.print(pool), reason_of(ref), nb::borrow(object));
}

nb::list inventory_of(PyCodeObject* code, const plan::Segment& segment, portable::Naming& naming) {
  const source::Pool& pool = *segment.guards.description().pool;
  portable::Describer describer(segment, code, naming);
  nb::list rows;
  for (const auto& [place, object, ref] : portable::describe(segment, code, naming))
    rows.append(row(portable::place_name(place), object, ref, pool));
  if (segment.compiled && native::is_executor(segment.compiled.get()))
    native::each_object(segment.compiled.get(), [&](const char* place, PyObject* object) {
      rows.append(row(place, object, describer.describe(portable::Place::ReplayConstant, object), pool));
    });
  return rows;
}

nb::list inventory(nb::handle entry) {
  try {
    portable::Naming naming;
    nb::list segments;
    for (const auto& [code, segment] : segments_of(*runtime::family_of(entry.ptr())))
      segments.append(inventory_of(code.get(), *segment, naming));
    return segments;
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

PyCodeObject* code_in(nb::handle object) {
  if (!PyCode_Check(object.ptr())) throw nb::type_error("not a code object");
  return reinterpret_cast<PyCodeObject*>(object.ptr());
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::object encode(nb::handle object) {
  std::string bytes;
  if (!portable::encode(object.ptr(), bytes)) return nb::none();
  return bytes_of(bytes);
}

nb::object decode(nb::bytes bytes) {
  try {
    return nb::steal(portable::decode({bytes.c_str(), bytes.size()}).release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

nb::tuple to_python(const ObjectRef& ref) {
  nb::list steps, items;
  for (const portable::PathStep& step : ref.path.steps)
    steps.append(nb::make_tuple(static_cast<int>(step.kind), step.name, step.index));
  for (const ObjectRef& item : ref.items) items.append(to_python(item));
  return nb::make_tuple(static_cast<int>(ref.kind), nb::bytes(ref.bytes.data(), ref.bytes.size()), ref.path.module,
                        nb::tuple(steps), ref.digest, ref.source, static_cast<int>(ref.part), nb::tuple(items),
                        static_cast<int>(ref.reason));
}

ObjectRef from_python(nb::handle row) {
  ObjectRef ref;
  const auto bytes = nb::cast<nb::bytes>(row[1]);
  ref.kind = static_cast<ObjectRef::Kind>(nb::cast<int>(row[0]));
  ref.bytes = {bytes.c_str(), bytes.size()};
  ref.path.module = nb::cast<std::string>(row[2]);
  for (nb::handle step : row[3])
    ref.path.steps.push_back({static_cast<portable::StepKind>(nb::cast<int>(step[0])), nb::cast<std::string>(step[1]),
                              nb::cast<int64_t>(step[2])});
  ref.digest = nb::cast<std::string>(row[4]);
  ref.source = nb::cast<uint32_t>(row[5]);
  ref.part = static_cast<ObjectRef::Part>(nb::cast<int>(row[6]));
  for (nb::handle item : row[7]) ref.items.push_back(from_python(item));
  ref.reason = static_cast<portable::Unportable>(nb::cast<int>(row[8]));
  return ref;
}

void rebind(bool on, nb::list rows, nb::object look) {
  state->rebinds = on;
  met() = {};
  if (!look.is_none()) met().look = share(look.ptr());
  for (nb::handle segment : rows) {
    std::vector<ObjectRef>& refs = met().given.emplace_back();
    for (nb::handle ref : segment) refs.push_back(from_python(ref));
  }
}

nb::dict take_met() {
  nb::dict result;
  result["segments"] = met().segments;
  result["graphs"] = met().graphs;
  result["objects"] = met().objects;
  result["kept"] = met().kept;
  result["wrong"] = met().wrong;
  nb::list rows;
  for (const std::vector<ObjectRef>& refs : met().refs) {
    nb::list segment;
    for (const ObjectRef& ref : refs) segment.append(to_python(ref));
    rows.append(segment);
  }
  result["rows"] = rows;
  met() = {.given = std::move(met().given), .look = std::move(met().look)};
  return result;
}

}  // namespace

bool rebinds() { return state->rebinds; }

namespace {

/// The objects that the descriptions find in the frame's call; null for those that are not portable. Uses descriptions
/// of another process if there are any; false if those describe another segment.
bool find_all(std::vector<portable::Described> described, const source::Pool& pool, const runtime::FrameView& frame,
              std::vector<Owned<>>& objects) {
  if (!met().given.empty()) {
    std::vector<ObjectRef> given = std::move(met().given.front());
    met().given.erase(met().given.begin());
    if (given.size() != described.size()) {
      met().wrong.push_back("a segment or graph of " + std::to_string(described.size()) + " objects, described with " +
                            std::to_string(given.size()));
      return false;
    }
    for (size_t i = 0; i < given.size(); ++i) described[i].ref = std::move(given[i]);
  }
  std::vector<ObjectRef>& refs = met().refs.emplace_back();
  for (const portable::Described& each : described) refs.push_back(each.ref);
  std::vector<plan::Roots> callers;
  const plan::Roots roots = roots_of(frame, callers);
  portable::Finder finder(pool, roots);
  std::unordered_map<PyObject*, Owned<>> found;  // keeps identical objects identical
  for (const auto& [place, object, ref] : described) {
    ++met().objects;
    if (!ref.is_portable()) {
      ++met().kept;
      objects.emplace_back();
      continue;
    }
    Owned<>& other = found[object];
    if (!other) {
      other = finder.find(ref);
      if (other && !is_the_one(ref, object, other.get())) met().wrong.push_back(ref.print(pool) + " is another object");
    }
    objects.push_back(other);
  }
  for (std::string& line : finder.missing) met().wrong.push_back(std::move(line));
  return true;
}

}  // namespace

std::unique_ptr<plan::Segment> rebound(std::unique_ptr<plan::Segment> segment, const runtime::FrameView& frame) {
  portable::Naming naming;
  std::vector<Owned<>> objects;
  const source::Pool& pool = *segment->guards.description().pool;
  ++met().segments;
  if (!find_all(portable::describe(*segment, frame.code, naming), pool, frame, objects)) return segment;
  return portable::with_objects(std::move(segment), objects);
}

std::unique_ptr<graph::Kept> rebound(const graph::Graph& graph, const std::vector<Owned<>>& inputs,
                                     const plan::Segment& segment, const runtime::FrameView& frame) {
  portable::Naming naming;
  auto kept = std::make_unique<graph::Kept>(graph, [](PyObject* object) { return share(object); });
  std::vector<Owned<>> objects;
  const source::Pool& pool = *segment.guards.description().pool;
  ++met().graphs;
  find_all(portable::describe(*kept, segment, frame.code, naming), pool, frame, objects);
  size_t at = 0;
  auto anew = std::make_unique<graph::Kept>(kept->graph(), [&](PyObject* object) {
    const Owned<> found = at < objects.size() ? objects[at] : Owned<>();
    ++at;
    return found ? found : share(object);
  });
  if (met().look) {
    const nb::object before = nb::cast(backend::Examples(graph)), after = nb::cast(backend::Examples(anew->graph()));
    take(PyObject_CallFunctionObjArgs(met().look.get(), backend::to_fx(graph, inputs).get(), before.ptr(),
                                      backend::to_fx(anew->graph(), inputs).get(), after.ptr(), nullptr));
  }
  if (graph.print() != anew->graph().print()) met().wrong.push_back("a graph that prints as another");
  return anew;
}

void bind_portable_testing(nb::module_& module) {
  nb::module_ m = module.def_submodule("testing_portable", "For gramme's own tests.");
  m.def("digest", [](nb::handle code) { return bytes_of(portable::digest_of(code_in(code))); }, "code"_a);
  m.def("lasts", [](nb::handle object) { return portable::lasts(object.ptr()); }, "object"_a.none());
  m.def("encode", encode, "object"_a.none());
  m.def("decode", decode, "bytes"_a);
  m.def("inventory", inventory, "entry"_a);
  m.def("rebind", rebind, "on"_a, "rows"_a = nb::list(), "look"_a = nb::none());
  m.def("rebound", take_met);
  m.def("kept_graphs", [] {
    const backend::KeptGraphs kept = backend::kept_graphs();
    return std::pair(kept.count, kept.bytes);
  });
  m.def("reasons", [] {
    nb::dict reasons;
#define UNPORTABLE(name, text) reasons[#name] = text;
#include "portable/unportable.def"
#undef UNPORTABLE
    return reasons;
  });
}

}  // namespace gramme::api
