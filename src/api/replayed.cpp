// The list of gramme's own functions that replay calls. As attributes of a module, segments' descriptions find them
// like other C functions.
#include "api/replayed.h"

#include "cpython/itertools.h"
#include "cpython/lru_cache.h"
#include "cpython/replayed.h"
#include "protocol/warned.h"

namespace nb = nanobind;

namespace gramme::api {

void bind_replayed(nb::module_& module) {
  nb::module_ m = module.def_submodule("replayed");
  auto add = [&](const char* name, PyObject* function) { m.attr(name) = nb::borrow(function); };
  add("make_generator", cpython::generator_maker());
  add("make_frame", cpython::frame_maker());
  add("fill_frame", cpython::frame_filler());
  add("set_hashed", cpython::hashed_setter());
  add("delete_hashed", cpython::hashed_deleter());
  add("move_iterator", cpython::iterator_mover());
  add("advance_iterator", cpython::iterator_advancer());
  add("Iterable", cpython::iterable_of());
  add("set_itertool", cpython::itertool_setter());
  add("make_cycle", cpython::cycle_maker());
  add("count_cache_hit", cpython::cache_hit_counter());
  add("warn_at", protocol::warning_issuer());
}

}  // namespace gramme::api
