#include "portable/path.h"

#include "base/type_dict.h"
#include "cpython/entries.h"
#include "cpython/objects.h"
#include "portable/raw.h"

namespace gramme::portable {

Owned<> resolve(const Path& path) {
  Owned<> at = share(module_named(path.module));
  for (const PathStep& step : path.steps) {
    if (!at) return {};
    at = child(at.get(), step);
  }
  return at;
}

std::string Path::print() const {
  std::string text = module;
  char joint = ':';
  for (const PathStep& step : steps) {
    text += std::exchange(joint, '.');
    switch (step.kind) {
      case StepKind::Attr:
        text += step.name;
        break;
      case StepKind::Key:
        text += "['" + step.name + "']";
        break;
      case StepKind::Function:
        text += "<function>";
        break;
      case StepKind::Accessor:
        text += "<accessor " + std::to_string(step.index) + ">";
        break;
      case StepKind::Cell:
        text += "<cell " + std::to_string(step.index) + ">";
        break;
      case StepKind::Code:
        text += "<code>";
        break;
      case StepKind::Constant:
        text += "<constant " + std::to_string(step.index) + ">";
        break;
    }
  }
  return text;
}

}  // namespace gramme::portable
