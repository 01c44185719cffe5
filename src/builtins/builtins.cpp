// Calls the register function of each file of models.
#include "builtins/builtins.h"

#include "builtins/torch_rules.h"
#include "builtins/torch_support.h"
#include "builtins/torch_tensor.h"

namespace gramme::builtins {

void register_python() {
  register_core();
  register_numbers();
  register_math();
  register_objects();
  register_abc();
  register_exceptions();
  register_list();
  register_container_slots();
  register_dict();
  register_set();
  register_text();
  register_iterators();
  register_itertools();
  register_functools();
  register_lru_cache();
  register_operator();
  register_collections();
  register_made_classes();
  register_context();
  register_copy();
  register_descriptors();
  register_heap();
  register_inspect();
  register_weakref();
  register_numpy();
  register_logging();
  register_process();
  register_threads();
}

void register_torch() {
  protocol::note_tensor_methods();
  protocol::set_classifier(&classify);
  protocol::set_tensor_attributes({&tensor_attribute, &set_tensor_attribute});
  register_torch_questions();
  register_torch_functions();
  register_torch_metadata();
  register_torch_methods();
  register_torch_hooks();
  register_torch_leaves();
  register_torch_legacy();
  register_torch_modes();
  register_torch_optim();
  register_torch_optim_steps();
  register_torch_outside();
  register_torch_distributed();
  register_torch_dtensor();
  register_torch_function_modes();
  register_torch_overrides();
  register_torch_wrappers();
  register_torch_state();
  register_torch_dynamo();
  register_torch_functorch();
  register_arrays();
}

}  // namespace gramme::builtins
