// What tests ask of the room portable.
//
//   digest(code), encode(object), decode(bytes), sha256(bytes)
//   inventory(entry)              # of each segment: rows of (place, kind of reference, text, why it is not portable)
//   rebind(True)                  # each new segment is made anew from its description and the call
//   rebound()                     # what that came to since it was asked last
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/describe.h"
#include "api/rebinding.h"
#include "api/testing.h"
#include "base/sha256.h"
#include "native/executor.h"
#include "portable/bind.h"
#include "portable/canonical.h"
#include "portable/describe.h"
#include "portable/digest.h"
#include "runtime/entry.h"
#include "source/constant.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {

bool rebinds = false;

namespace {

using portable::ObjectRef;

/// What rebound() met since a test asked.
struct Met {
  size_t segments = 0, objects = 0, kept = 0;
  std::vector<std::string> wrong;
};
Met& met() {
  static Met all;
  return all;
}

plan::Roots roots_of(const runtime::FrameView& frame, std::vector<plan::Roots>& callers) {
  for (const runtime::WaitingView& caller : frame.callers)
    callers.push_back({caller.locals, caller.stack, caller.function});
  return {frame.locals, frame.stack,    frame.function,
          frame.exception, frame.outer, callers.data(), static_cast<int>(callers.size())};
}

/// Is it the very object, or a constant like it?
bool is_the_one(const ObjectRef& ref, PyObject* object, PyObject* found) {
  if (ref.kind == ObjectRef::Kind::Set) return PySet_Check(found) && source::same_elements(object, found);
  if (ref.kind == ObjectRef::Kind::Constant) {
    std::string bytes;
    return Py_TYPE(object) == Py_TYPE(found) && portable::encode(found, bytes) && bytes == ref.bytes;
  }
  if (ref.kind != ObjectRef::Kind::Tuple) return found == object;
  bool same = PyTuple_GET_SIZE(object) == PyTuple_GET_SIZE(found);
  for (size_t i = 0; same && i < ref.items.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    same = is_the_one(ref.items[i], PyTuple_GET_ITEM(object, at), PyTuple_GET_ITEM(found, at));
  }
  return same;
}

const char* kind_of(const ObjectRef& ref) {
  constexpr const char* kKinds[] = {"constant", "named", "from the call", "tuple", "set", "by identity"};
  return kKinds[static_cast<int>(ref.kind)];
}

/// The first of its parts that is not portable; empty if all are.
std::string reason_of(const ObjectRef& ref) {
  if (ref.kind == ObjectRef::Kind::ByIdentity) return portable::unportable_name(ref.reason);
  for (const ObjectRef& item : ref.items)
    if (std::string reason = reason_of(item); !reason.empty()) return reason;
  return "";
}

nb::tuple row(const char* place, PyObject* object, const ObjectRef& ref, const source::Pool& pool) {
  return nb::make_tuple(place, kind_of(ref), ref.print(pool), reason_of(ref), source::describe(object));
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
  portable::Naming naming;
  nb::list segments;
  for (const auto& [code, segment] : segments_of(*runtime::family_of(entry.ptr())))
    segments.append(inventory_of(code.get(), *segment, naming));
  return segments;
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

nb::dict take_met() {
  nb::dict result;
  result["segments"] = met().segments;
  result["objects"] = met().objects;
  result["kept"] = met().kept;
  result["wrong"] = std::exchange(met().wrong, {});
  met() = {};
  return result;
}

}  // namespace

std::unique_ptr<plan::Segment> rebound(std::unique_ptr<plan::Segment> segment, const runtime::FrameView& frame) {
  portable::Naming naming;
  std::vector<plan::Roots> callers;
  const plan::Roots roots = roots_of(frame, callers);
  portable::Finder finder(*segment->guards.description().pool, roots);
  std::vector<Owned<>> objects;
  std::unordered_map<PyObject*, Owned<>> found;  // what was one object stays one
  ++met().segments;
  for (const auto& [place, object, ref] : portable::describe(*segment, frame.code, naming)) {
    ++met().objects;
    Owned<>& other = found[object];
    if (!other && ref.is_portable()) {
      other = finder.find(ref);
      if (other && !is_the_one(ref, object, other.get()))
        met().wrong.push_back(ref.print(*segment->guards.description().pool) + " is another object");
    }
    met().kept += !other;
    objects.push_back(other);
  }
  for (std::string& line : finder.missing) met().wrong.push_back(std::move(line));
  return portable::with_objects(std::move(segment), objects);
}

void bind_portable_testing(nb::module_& module) {
  nb::module_ m = module.def_submodule("testing_portable", "For gramme's own tests.");
  m.def(
      "digest", [](nb::handle code) { return bytes_of(portable::digest_of(code_in(code))); }, "code"_a);
  m.def("encode", encode, "object"_a.none());
  m.def("decode", decode, "bytes"_a);
  m.def(
      "sha256",
      [](nb::bytes bytes) {
        const Sha256 digest = sha256({bytes.c_str(), bytes.size()});
        return bytes_of({reinterpret_cast<const char*>(digest.data()), digest.size()});
      },
      "bytes"_a);
  m.def("inventory", inventory, "entry"_a);
  m.def(
      "rebind", [](bool on) { rebinds = on; }, "on"_a);
  m.def("rebound", take_met);
  m.def("reasons", [] {
    nb::dict reasons;
#define UNPORTABLE(name, text) reasons[#name] = text;
#include "portable/unportable.def"
#undef UNPORTABLE
    return reasons;
  });
}

}  // namespace gramme::api
