// Bindings that only tests use: gramme._C.testing.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_guards_testing(nanobind::module_& m);
void bind_meta_testing(nanobind::module_& m);
void bind_graph_testing(nanobind::module_& m);
void bind_runtime_testing(nanobind::module_& m);
void bind_capture_testing(nanobind::module_& m);
void bind_invoke_testing(nanobind::module_& m);
void bind_tape_testing(nanobind::module_& m);
void bind_memory_testing(nanobind::module_& m);
void bind_shape_testing(nanobind::module_& m);
void bind_types_testing(nanobind::module_& m);
void bind_portable_testing(nanobind::module_& m);
void bind_scope_testing(nanobind::module_& m);
void bind_parts_testing(nanobind::module_& m);
void bind_classes_testing(nanobind::module_& m);
inline void bind_testing(nanobind::module_& m) {
  bind_guards_testing(m);
  bind_meta_testing(m);
  bind_graph_testing(m);
  bind_runtime_testing(m);
  bind_capture_testing(m);
  bind_invoke_testing(m);
  bind_tape_testing(m);
  bind_memory_testing(m);
  bind_shape_testing(m);
  bind_types_testing(m);
  bind_portable_testing(m);
  bind_scope_testing(m);
  bind_parts_testing(m);
  bind_classes_testing(m);
}

}  // namespace gramme::api
