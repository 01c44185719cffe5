// Which function executes which opcode. Rows not named here end the segment.
#include "interp/ops.h"

namespace gramme::interp {

namespace {

struct Table {
  Handler handler[256];
  Table() {
    using opcode::Op;
    for (Handler& h : handler) h = unsupported;
    auto set = [this](Op op, Handler h) { handler[static_cast<int>(op)] = h; };
    set(Op::NOP, nothing);
    set(Op::RESUME, nothing);
    set(Op::MAKE_CELL, make_cell);
    set(Op::COPY_FREE_VARS, copy_free_vars);
    set(Op::RETURN_GENERATOR, return_generator);
    set(Op::POP_TOP, pop_top);
    set(Op::PUSH_NULL, push_null);
    set(Op::COPY, copy);
    set(Op::SWAP, swap);
    set(Op::LOAD_CONST, load_const);
    set(Op::LOAD_ASSERTION_ERROR, load_assertion_error);
    set(Op::LOAD_SMALL_INT, load_small_int);
    set(Op::LOAD_COMMON_CONSTANT, load_common_constant);
    set(Op::LOAD_FAST_AND_CLEAR, load_fast_and_clear);
    set(Op::LOAD_FAST, load_fast);
    set(Op::STORE_FAST, store_fast);
    set(Op::DELETE_FAST, delete_fast);
    set(Op::LOAD_DEREF, load_deref);
    set(Op::STORE_DEREF, store_deref);
    set(Op::DELETE_DEREF, delete_deref);
    set(Op::LOAD_GLOBAL, load_global);
    set(Op::STORE_GLOBAL, store_global);
    set(Op::DELETE_GLOBAL, delete_global);
    set(Op::LOAD_BUILD_CLASS, load_build_class);
    set(Op::LOAD_NAME, load_name);
    set(Op::STORE_NAME, store_name);
    set(Op::DELETE_NAME, delete_name);
    set(Op::LOAD_CLASSDEREF, load_classderef);
    set(Op::SETUP_ANNOTATIONS, setup_annotations);
    set(Op::IMPORT_NAME, import_name);
    set(Op::IMPORT_FROM, import_from);
    set(Op::LOAD_ATTR, load_attr);
    set(Op::STORE_ATTR, store_attr);
    set(Op::DELETE_ATTR, delete_attr);
    set(Op::LOAD_METHOD, load_method);
    set(Op::LOAD_SUPER_ATTR, load_super_attr);
    set(Op::LOAD_SUPER_METHOD, load_super_method);
    set(Op::LOAD_SPECIAL, load_special);
    set(Op::BINARY_SLICE, binary_slice);
    set(Op::STORE_SLICE, store_slice);
    set(Op::TO_BOOL, to_bool);
    set(Op::BINARY_SUBSCR, binary_subscr);
    set(Op::STORE_SUBSCR, store_subscr);
    set(Op::DELETE_SUBSCR, delete_subscr);
    set(Op::UNARY_POSITIVE, unary_positive);
    set(Op::UNARY_NEGATIVE, unary_negative);
    set(Op::UNARY_NOT, unary_not);
    set(Op::UNARY_INVERT, unary_invert);
    set(Op::BINARY_OP, binary_op);
    set(Op::COMPARE_OP, compare_op);
    set(Op::IS_OP, is_op);
    set(Op::CONTAINS_OP, contains_op);
    set(Op::BUILD_TUPLE, build_tuple);
    set(Op::BUILD_LIST, build_list);
    set(Op::BUILD_SET, build_set);
    set(Op::BUILD_MAP, build_map);
    set(Op::BUILD_CONST_KEY_MAP, build_const_key_map);
    set(Op::BUILD_STRING, build_string);
    set(Op::BUILD_SLICE, build_slice);
    set(Op::FORMAT_VALUE, format_value);
    set(Op::CONVERT_VALUE, convert_value);
    set(Op::LIST_APPEND, list_append);
    set(Op::SET_ADD, set_add);
    set(Op::MAP_ADD, map_add);
    set(Op::LIST_EXTEND, list_extend);
    set(Op::SET_UPDATE, set_update);
    set(Op::DICT_UPDATE, dict_update);
    set(Op::DICT_MERGE, dict_merge);
    set(Op::LIST_TO_TUPLE, list_to_tuple);
    set(Op::UNPACK_SEQUENCE, unpack_sequence);
    set(Op::UNPACK_EX, unpack_ex);
    set(Op::GET_LEN, get_len);
    set(Op::MATCH_MAPPING, match_mapping);
    set(Op::MATCH_SEQUENCE, match_sequence);
    set(Op::MATCH_KEYS, match_keys);
    set(Op::MATCH_CLASS, match_class);
    set(Op::MAKE_FUNCTION, make_function);
    set(Op::CALL_KW, call_kw);
    set(Op::SET_FUNCTION_ATTRIBUTE, set_function_attribute);
    set(Op::LOAD_LOCALS, load_locals);
    set(Op::LOAD_FROM_DICT_OR_DEREF, load_from_dict_or_deref);
    set(Op::LOAD_FROM_DICT_OR_GLOBALS, load_from_dict_or_globals);
    set(Op::END_SEND, end_send);
    set(Op::CALL, call);
    set(Op::CALL_FUNCTION_EX, call_function_ex);
    for (Op op : {Op::JUMP_FORWARD, Op::JUMP_BACKWARD, Op::JUMP_BACKWARD_NO_INTERRUPT}) set(op, jump);
    set(Op::POP_JUMP_IF_TRUE, pop_jump_if_true);
    set(Op::POP_JUMP_IF_FALSE, pop_jump_if_false);
    set(Op::POP_JUMP_IF_NONE, pop_jump_if_none);
    set(Op::POP_JUMP_IF_NOT_NONE, pop_jump_if_not_none);
    set(Op::JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop);
    set(Op::JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop);
    set(Op::RETURN_VALUE, return_value);
    set(Op::GET_ITER, get_iter);
    set(Op::FOR_ITER, for_iter);
    set(Op::YIELD_VALUE, yield_value);
    set(Op::GET_YIELD_FROM_ITER, get_yield_from_iter);
    set(Op::SEND, send);
    set(Op::RAISE_VARARGS, raise_varargs);
    set(Op::RERAISE, reraise);
    set(Op::PUSH_EXC_INFO, push_exc_info);
    set(Op::POP_EXCEPT, pop_except);
    set(Op::CHECK_EXC_MATCH, check_exc_match);
    set(Op::BEFORE_WITH, before_with);
    set(Op::WITH_EXCEPT_START, with_except_start);
    set(Op::CALL_INTRINSIC_1, call_intrinsic_1);
    set(Op::CLEANUP_THROW, cleanup_throw);
  }
};

}  // namespace

const Handler* handlers() {
  static const Table table;
  return table.handler;
}

}  // namespace gramme::interp
