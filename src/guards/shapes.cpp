// Printing of shape guards, and the ranges that they imply.
#include "guards/shapes.h"

#include "shape/assumptions.h"

namespace gramme::guards {

std::vector<std::string> names_of(const std::vector<const source::Source*>& symbols) {
  std::vector<std::string> names;
  size_t without = 0;
  for (const source::Source* source : symbols)
    names.push_back(source ? source->print() : "u" + std::to_string(without++));
  return names;
}

std::vector<shape::Range> ShapeGuards::ranges() const {
  shape::Assumptions known;
  for (const source::Source* source : symbols)
    known.add_symbol({source && source::is_number(source->kind) ? 0 : shape::Range::kNoLow, shape::Range::kNoHigh},
                     std::nullopt);
  for (const Condition& condition : conditions) known.learn(condition.holds);
  std::vector<shape::Range> ranges;
  for (size_t i = 0; i < symbols.size(); ++i) ranges.push_back(known.range(shape::symbol(static_cast<int64_t>(i))));
  return ranges;
}

std::vector<std::string> ShapeGuards::print() const {
  const std::vector<std::string> names = this->names();
  std::vector<std::string> lines;
  for (const Property& property : properties)
    lines.push_back(property.source->print() + " == " + shape::print(property.value, names));
  for (const Condition& condition : conditions)
    lines.push_back(shape::print(condition.holds, names) + condition.remark());
  return lines;
}

}  // namespace gramme::guards
