// One function per opcode. The table in dispatch.cpp names them all.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// Call when the live frame drops a real object. If it has a finalizer, that must run between the surrounding effects,
/// so the instruction ends the segment.
void drop(const Interpreter& interp, const Frame& frame, const Value* value);

#define GRAMME_OP(name) Step name(Interpreter& interp, Frame& frame, int arg)
// ops_stack.cpp
GRAMME_OP(nothing);
GRAMME_OP(unsupported);
GRAMME_OP(pop_top);
GRAMME_OP(push_null);
GRAMME_OP(copy);
GRAMME_OP(swap);
GRAMME_OP(load_const);
GRAMME_OP(load_assertion_error);
GRAMME_OP(load_small_int);
GRAMME_OP(load_common_constant);
GRAMME_OP(load_fast_and_clear);
GRAMME_OP(load_fast);
GRAMME_OP(store_fast);
GRAMME_OP(delete_fast);
GRAMME_OP(make_cell);
GRAMME_OP(copy_free_vars);
GRAMME_OP(load_deref);
GRAMME_OP(store_deref);
GRAMME_OP(delete_deref);
GRAMME_OP(load_global);
GRAMME_OP(store_global);
GRAMME_OP(delete_global);
GRAMME_OP(jump);
GRAMME_OP(pop_jump_if_true);
GRAMME_OP(pop_jump_if_false);
GRAMME_OP(pop_jump_if_none);
GRAMME_OP(pop_jump_if_not_none);
GRAMME_OP(jump_if_true_or_pop);
GRAMME_OP(jump_if_false_or_pop);
GRAMME_OP(return_value);
// ops_objects.cpp
GRAMME_OP(load_attr);
GRAMME_OP(load_method);
GRAMME_OP(load_super_attr);
GRAMME_OP(load_super_method);
GRAMME_OP(load_special);
GRAMME_OP(binary_slice);
GRAMME_OP(store_slice);
GRAMME_OP(to_bool);
GRAMME_OP(store_attr);
GRAMME_OP(delete_attr);
GRAMME_OP(binary_subscr);
GRAMME_OP(store_subscr);
GRAMME_OP(delete_subscr);
GRAMME_OP(unary_positive);
GRAMME_OP(unary_negative);
GRAMME_OP(unary_not);
GRAMME_OP(unary_invert);
GRAMME_OP(binary_op);
GRAMME_OP(compare_op);
GRAMME_OP(is_op);
GRAMME_OP(contains_op);
GRAMME_OP(import_name);
GRAMME_OP(import_from);
// ops_build.cpp
GRAMME_OP(build_tuple);
GRAMME_OP(build_list);
GRAMME_OP(build_set);
GRAMME_OP(build_map);
GRAMME_OP(build_const_key_map);
GRAMME_OP(build_string);
GRAMME_OP(build_slice);
GRAMME_OP(format_value);
GRAMME_OP(convert_value);
GRAMME_OP(list_append);
GRAMME_OP(set_add);
GRAMME_OP(map_add);
GRAMME_OP(list_extend);
GRAMME_OP(set_update);
GRAMME_OP(dict_update);
GRAMME_OP(dict_merge);
GRAMME_OP(list_to_tuple);
GRAMME_OP(unpack_sequence);
GRAMME_OP(unpack_ex);
GRAMME_OP(get_len);
GRAMME_OP(match_mapping);
GRAMME_OP(match_sequence);
GRAMME_OP(match_keys);
GRAMME_OP(match_class);
// ops_calls.cpp
GRAMME_OP(call);
GRAMME_OP(call_function_ex);
GRAMME_OP(make_function);
GRAMME_OP(call_kw);
GRAMME_OP(set_function_attribute);
GRAMME_OP(load_locals);
GRAMME_OP(load_from_dict_or_deref);
GRAMME_OP(load_from_dict_or_globals);
GRAMME_OP(end_send);
GRAMME_OP(load_build_class);
GRAMME_OP(load_name);
GRAMME_OP(store_name);
GRAMME_OP(delete_name);
GRAMME_OP(load_classderef);
GRAMME_OP(setup_annotations);
GRAMME_OP(get_iter);
GRAMME_OP(for_iter);
GRAMME_OP(return_generator);
GRAMME_OP(yield_value);
GRAMME_OP(get_yield_from_iter);
GRAMME_OP(send);
// ops_exceptions.cpp
GRAMME_OP(push_exc_info);
GRAMME_OP(pop_except);
GRAMME_OP(check_exc_match);
GRAMME_OP(reraise);
GRAMME_OP(raise_varargs);
GRAMME_OP(before_with);
GRAMME_OP(with_except_start);
GRAMME_OP(call_intrinsic_1);
GRAMME_OP(cleanup_throw);
#undef GRAMME_OP

}  // namespace gramme::interp
