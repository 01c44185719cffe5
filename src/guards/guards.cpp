// Facts as text, for explain() and logs; which operands a kind requires.
#include "guards/fact.h"
#include "source/constant.h"

namespace gramme::guards {

using source::describe;

std::string Fact::print() const {
  std::string name = source->print();
  switch (kind) {
    case Kind::Type:
      return "type(" + name + ") is " + describe(object.get());
    case Kind::Narrow:
      return name + " is a narrow " + reinterpret_cast<PyTypeObject*>(object.get())->tp_name;
    case Kind::Constant:
      return name + " == " + describe(object.get());
    case Kind::Identity:
      return name + " is " + describe(object.get());
    case Kind::SameAs:
      return name + " is " + other->print();
    case Kind::NotSameAs:
      return name + " is not " + other->print();
    case Kind::Length:
      return "len(" + name + ") == " + std::to_string(number);
    case Kind::Absent:
      return name + " does not exist";
    case Kind::Present:
      return name + " exists";
    case Kind::Keys:
      return "list(" + name + ") == " + describe(object.get());
    case Kind::Places:
      return "list(" + name + ") and its history are those of " + describe(object.get());
    case Kind::SetIs:
      return name + " == " + describe(object.get());
    case Kind::Hashes:
      return "the hashes of " + name + " are " + describe(object.get());
    case Kind::Position:
      return name + " stands at " + std::to_string(number);
    case Kind::MaxLength:
      return name + ".maxlen == " + (number < 0 ? "None" : std::to_string(number));
    case Kind::Tensor:
      return name + ": " + spec->print();
    case Kind::Marks:
      return name +
             (object.get() == Py_None ? " is not marked" : " is marked no further than " + describe(object.get()));
    case Kind::HidesNothing:
      return name + " hides no attribute of its class";
    case Kind::Code:
      return name + ".__code__ is " + describe(object.get());
    case Kind::MethodDef:
      return name + " is bound from " + describe(object.get());
    case Kind::Warning:
      return "the warning " + describe(object.get()) + " of " + name + " is not raised";
    case Kind::Subclasses:
      return name + ".__subclasses__() == " + describe(object.get());
    case Kind::Subclass:
      return std::string(number ? "" : "not ") + "issubclass(" + describe(object.get()) + ", " + name + ")";
    case Kind::Content:
      return name + ".item() lies within " + describe(object.get()) + (number ? ", a whole number" : "");
    case Kind::NoOverlap:
      return name + " shares no memory with " + other->print();
    case Kind::OtherStorage:
      return name + " lies in another storage than " + other->print();
    case Kind::Apart:
      return name + " shares no memory with any of those from " + other->print() + " on";
    case Kind::Distinct:
      return name + " is another object than all others told apart";
    case Kind::Other:
      return name + " is none of the objects told apart";
    case Kind::Unguarded:
      return name + " is read";
  }
  return name;
}

Fact between(const source::Source* source, double low, double high, bool whole) {
  Fact fact{source, Kind::Content, take(Py_BuildValue("(dd)", low, high))};
  fact.number = whole;
  return fact;
}

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {
#define GUARD(name, ...) #name,
#include "guards/guards.def"
#undef GUARD
  };
  return kNames[static_cast<int>(kind)];
}

Operand operand(Kind kind) {
  static constexpr Operand kOperands[] = {
#define GUARD(name, operand, ...) Operand::operand,
#include "guards/guards.def"
#undef GUARD
  };
  return kOperands[static_cast<int>(kind)];
}

bool is_complete(const Fact& fact) {
  switch (operand(fact.kind)) {
    case Operand::Object:
    case Operand::Both:
      return static_cast<bool>(fact.object);
    case Operand::Other:
      return fact.other != nullptr;
    case Operand::Spec:
      return fact.spec != nullptr;
    case Operand::None:
    case Operand::Number:
      return true;
  }
  return false;
}

}  // namespace gramme::guards
