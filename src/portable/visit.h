// Visits all objects that a segment holds, each with the kind of its place.
//
//   visit(segment, [](Place place, auto& owned) { ... });     // Owned<>& or Owned<PyCodeObject>&
//
// The list is complete by construction: each struct is decomposed into all of its fields, and a field is either visited
// or has a type listed as holding no object. A new field, or one of a new type, does not compile.
#pragma once
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan/segment.h"

namespace gramme::portable {

enum class Place : uint8_t {
#define PLACE(name, ...) name,
#include "portable/places.def"
#undef PLACE
};
const char* place_name(Place place);

namespace closed {

template <class T>
struct Plain : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T>> {};
template <class T>
constexpr bool kPlain = Plain<std::remove_cvref_t<T>>::value;

template <>
struct Plain<std::string> : std::true_type {};
template <>
struct Plain<const char*> : std::true_type {};  // a string constant of gramme
template <>
struct Plain<plan::CallGraph> : std::true_type {};
template <>
struct Plain<const source::Source*> : std::true_type {};  // its pool is visited
template <>
struct Plain<shape::Expr> : std::true_type {};
template <class T, class A>
struct Plain<std::vector<T, A>> : Plain<T> {};
template <class... T>
struct Plain<std::tuple<T&...>> : std::bool_constant<(kPlain<T> && ...)> {};

/// Decomposes a struct into fields none of which holds an object.
#define GRAMME_PLAIN(type, ...)              \
  inline auto fields_of(const type& whole) { \
    auto& [__VA_ARGS__] = whole;             \
    return std::tie(__VA_ARGS__);            \
  }                                          \
  template <>                                \
  struct Plain<type> : Plain<decltype(fields_of(std::declval<const type&>()))> {};
GRAMME_PLAIN(plan::SlotWrite, slot, value)
GRAMME_PLAIN(plan::LetGo, slots, stack)
GRAMME_PLAIN(plan::LastingWrites::Happened, node, operations)
GRAMME_PLAIN(plan::Restored, read, content)
GRAMME_PLAIN(plan::CompileId, frame, recompile)
GRAMME_PLAIN(aten::GlobalState, included, excluded, bits, dtypes, function_modes)
GRAMME_PLAIN(guards::ShapeGuards::Property, source, value)
GRAMME_PLAIN(guards::ShapeGuards::Condition, holds, place)
GRAMME_PLAIN(guards::ShapeGuards, symbols, properties, conditions, numbers)
#undef GRAMME_PLAIN

template <class... Fields>
void hold_nothing(const Fields&...) {
  static_assert((kPlain<Fields> && ...), "a field that may hold an object: give it to the visitor");
}

template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

}  // namespace closed

// Each takes a struct, const or not, and passes the visitor references of the same constness.

template <class Visit>
void visit(const aten::TensorSpec& spec, Visit&& give) {
  auto& [tensor, keys, special_view, compares_views, compares_autograd, varying_sizes, varying_strides] = spec;
  closed::hold_nothing(keys, special_view, compares_views, compares_autograd, varying_sizes, varying_strides);
  const aten::TensorDescription& description = *tensor;
  auto& [type, dtype, device_type, device_index, layout, requires_grad, is_leaf, is_inference, is_conj, is_neg, opaque,
         sizes, strides, storage_offset, inner, level, batch_dim, parts, context, ragged] = description;
  closed::hold_nothing(dtype, device_type, device_index, layout, requires_grad, is_leaf, is_inference, is_conj, is_neg,
                       opaque, level, batch_dim, ragged);
  static_assert(std::is_same_v<decltype(sizes), const std::vector<shape::SymInt>>);
  static_assert(std::is_same_v<decltype(storage_offset), const shape::SymInt>);
  const Owned<> cls = share(reinterpret_cast<PyObject*>(type)), kept = share(context);
  give(Place::TensorClass, cls);
  if (kept) give(Place::TensorContext, kept);
  aten::TensorSpec part = spec;
  if ((part.tensor = inner)) visit(part, give);
  for (const aten::TensorType* each : parts) part.tensor = each, visit(part, give);
}

template <closed::Is<guards::Fact> Fact, class Visit>
void visit(Fact& fact, Visit&& give) {
  auto& [source, kind, object, other, number, spec] = fact;
  closed::hold_nothing(source, kind, other, number);
  if (object) give(kind == guards::Kind::Places ? Place::Order : Place::Operand, object);
  if (spec) visit(*spec, give);
}

template <closed::Is<source::Source> Source, class Visit>
void visit(Source& source, Visit&& give) {
  auto& [kind, base, key, index, id, path, variable] = source;
  closed::hold_nothing(kind, base, index, id, path);
  if (key) give(kind == source::Kind::Pinned ? Place::Pinned : Place::SourceKey, key);
  if (variable) give(Place::Variable, variable);
}

template <closed::Is<plan::GuardDescription> Description, class Visit>
void visit(Description& description, Visit&& give) {
  auto& [pool, facts, reads, state, shapes] = description;
  closed::hold_nothing(reads, state, shapes);
  for (auto& fact : facts) visit(fact, give);
  for (size_t i = 0; i < pool->size(); ++i) visit(*pool->at(i), give);
}

template <closed::Is<plan::Replay> Replay, class Visit>
void visit(Replay& replay, Visit&& give) {
  auto& [ops, operands, constants, constant_base, registers] = replay;
  closed::hold_nothing(operands, constant_base, registers);
  for (auto& op : ops) {
    auto& [kind, dst, a, b, c, first, count, number, object] = op;
    closed::hold_nothing(kind, dst, a, b, c, first, count, number);
    if (object) give(Place::ReplayObject, object);
  }
  for (auto& constant : constants)
    if (constant) give(Place::ReplayConstant, constant);
}

template <closed::Is<plan::Exit> Exit, class Visit>
void visit(Exit& exit, Visit&& give) {
  auto& [exit_kind, callers, result, exit_offset, locals, stack, borrowed, lets_go, exception, makes_generator,
         frame_unchanged, pushed, capture_callee] = exit;
  closed::hold_nothing(exit_kind, result, exit_offset, locals, stack, borrowed, lets_go, exception, makes_generator,
                       frame_unchanged, capture_callee);
  for (auto& frame : callers) {
    auto& [code, unit, gives, dies, frame_lets_go] = frame;
    closed::hold_nothing(unit, gives, dies, frame_lets_go);
    if (code) give(Place::CallerCode, code);
  }
  for (auto& frame : pushed) {
    auto& [function, code, offset, gives, called_alone, values, depth, frame_borrowed] = frame;
    closed::hold_nothing(function, offset, gives, called_alone, values, depth, frame_borrowed);
    if (code) give(Place::PushedCode, code);
  }
}

template <closed::Is<plan::Ending> Ending, class Visit>
void visit(Ending& ending, Visit&& give) {
  auto& [reason, detail, hint, kind, unbacked, raises, line, file, function, inner_line, module, operation, stack] =
      ending;
  closed::hold_nothing(reason, detail, hint, kind, unbacked, raises, line, file, function, inner_line, module,
                       operation);
  for (auto& [code, unit] : stack) give(Place::EndingCode, code);
}

template <closed::Is<plan::LastingWrites> Writes, class Visit>
void visit(Writes& writes, Visit&& give) {
  auto& [first, places, place_of, happened] = writes;
  closed::hold_nothing(first, place_of, happened);
  for (auto& place : places) {
    auto& [code, unit, caller] = place;
    closed::hold_nothing(unit, caller);
    if (code) give(Place::LastingCode, code);
  }
}

/// Visits everything except the guards.
template <closed::Is<plan::Segment> Segment, class Visit>
void visit_all_but_guards(Segment& segment, Visit&& give) {
  auto& [start, steps, guards, graph_inputs, classed, compiled, call, graph_outputs, restored, lasting, random,
         sets_modes, iterates, replay, levels, exit, ending, effects, operations, operators, graph_module, hits, number,
         check_seconds, recorded, terms, capture_terms, compile_id] = segment;
  closed::hold_nothing(start, steps, graph_inputs, classed, call, graph_outputs, restored, random, sets_modes, iterates,
                       levels, effects, operations, operators, hits, number, check_seconds, recorded, terms,
                       capture_terms, compile_id);
  static_assert(closed::Is<decltype(guards), plan::GuardPlan>);
  if (compiled) give(Place::Compiled, compiled);
  if (graph_module) give(Place::GraphModule, graph_module);
  visit(replay, give);
  visit(exit, give);
  visit(ending, give);
  if (lasting) visit(*lasting, give);
}

template <class Visit>
void visit(const plan::Segment& segment, Visit&& give) {
  visit(segment.guards.description(), give);
  visit_all_but_guards(segment, give);
}

}  // namespace gramme::portable
