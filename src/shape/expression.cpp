// The one table of nodes: hash-consing, sizes and the order of expressions.
#include "shape/expression.h"

#include <deque>
#include <memory>

#include "base/process.h"
#include "shape/nodes.h"

namespace gramme::shape {
namespace {

struct Row {
  Type type;
  Operation operation;
  const char* text;
};

constexpr Row kRows[] = {
#define KIND(name, type, operation, text) {Type::type, Operation::operation, text},
#include "shape/kinds.def"
#undef KIND
};

const Row& row(Kind kind) { return kRows[static_cast<size_t>(kind)]; }

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

/// All nodes of the process, in a hash table with open addressing. Segments and types point to them.
class Pool {
 public:
  Expr find_or_make(Kind kind, Type type, int64_t constant, std::span<const Operand> operands) {
    if (nodes_.size() * 2 >= slots_.size()) grow();
    size_t at = hash(kind, type, constant, operands) & (slots_.size() - 1);
    for (; slots_[at]; at = (at + 1) & (slots_.size() - 1)) {
      const Expression& node = *slots_[at];
      if (node.kind == kind && node.type == type && node.constant == constant && equal(node.operands, operands))
        return &node;
    }
    return slots_[at] = make(kind, type, constant, operands);
  }

  Expr at(uint32_t id) const { return &nodes_.at(id); }
  size_t size() const { return nodes_.size(); }

 private:
  static bool equal(std::span<const Operand> a, std::span<const Operand> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Operand& x, const Operand& y) { return x.of == y.of && x.times == y.times; });
  }

  static uint64_t hash(Kind kind, Type type, int64_t constant, std::span<const Operand> operands) {
    uint64_t hash =
        mix(static_cast<uint64_t>(kind) << 8 | static_cast<uint64_t>(type), static_cast<uint64_t>(constant));
    for (const Operand& operand : operands) hash = mix(mix(hash, operand.of->id), static_cast<uint64_t>(operand.times));
    return hash;
  }

  Expr make(Kind kind, Type type, int64_t constant, std::span<const Operand> operands) {
    uint64_t size = 1, symbols = 0;
    for (const Operand& operand : operands) {
      size += operand.of->size * (kind == Kind::Product ? static_cast<uint64_t>(operand.times) : 1);
      symbols |= operand.of->symbols;
    }
    if (size > kLargest) return nullptr;
    if (kind == Kind::Symbol) symbols = uint64_t{1} << std::min<int64_t>(constant, 63);
    auto copy = std::make_unique<Operand[]>(operands.size());
    std::copy(operands.begin(), operands.end(), copy.get());
    nodes_.push_back({kind, type, static_cast<uint32_t>(size), static_cast<uint32_t>(nodes_.size()), symbols, constant,
                      std::span<const Operand>(copy.release(), operands.size())});
    return &nodes_.back();
  }

  void grow() {
    std::vector<Expr> larger(slots_.empty() ? 1024 : slots_.size() * 2);
    for (const Expression& node : nodes_) {
      size_t at = hash(node.kind, node.type, node.constant, node.operands) & (larger.size() - 1);
      while (larger[at]) at = (at + 1) & (larger.size() - 1);
      larger[at] = &node;
    }
    slots_ = std::move(larger);
  }

  std::deque<Expression> nodes_;  // GIL
  std::vector<Expr> slots_;       // GIL: a power of two, at most half full
};
Lasting<Pool> pool;

}  // namespace

Expr intern(Kind kind, Type type, int64_t constant, std::span<const Operand> operands) {
  return pool->find_or_make(kind, type, constant, operands);
}

Expr expression_of(uint32_t id) { return pool->at(id); }

Operation operation_of(Kind kind) { return row(kind).operation; }
const char* text_of(Kind kind) { return row(kind).text; }
Type type_of(Kind kind) { return row(kind).type; }

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  auto order = [](auto x, auto y) { return x < y ? -1 : x > y; };
  if (a->kind != b->kind) return order(a->kind, b->kind);
  if (a->type != b->type) return order(a->type, b->type);
  const size_t count = std::min(a->operands.size(), b->operands.size());
  for (size_t i = 0; i < count; ++i) {
    const Operand &x = a->operands[i], &y = b->operands[i];
    if (int different = compare(x.of, y.of)) return different;
    if (int different = order(x.times, y.times)) return different;
  }
  if (int different = order(a->operands.size(), b->operands.size())) return different;
  return order(a->constant, b->constant);
}

double float_value(Expr constant) { return as_float(constant->constant); }

Expr constant(int64_t value) { return intern(Kind::Constant, Type::Int, value, {}); }

Expr float_constant(double value) {
  return std::isfinite(value) ? intern(Kind::Constant, Type::Float, as_word(value), {}) : nullptr;
}

Expr truth(bool value) { return intern(Kind::Constant, Type::Bool, value, {}); }

Expr symbol(int64_t number, Type type) { return intern(Kind::Symbol, type, number, {}); }

}  // namespace gramme::shape
