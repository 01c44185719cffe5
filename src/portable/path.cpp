// Following and printing paths.
#include "portable/path.h"

#include "base/type_dict.h"
#include "cpython/entries.h"
#include "cpython/objects.h"
#include "portable/raw.h"

namespace gramme::portable {

Owned<> resolve(const Path& path) { return follow(share(module_named(path.module)), path.steps); }

Owned<> follow(Owned<> from, const std::vector<PathStep>& steps) {
  for (const PathStep& step : steps) {
    if (!from) return {};
    from = child(from.get(), step);
  }
  return from;
}

std::string Path::print() const { return module + portable::print(steps, ':'); }

std::string print(const std::vector<PathStep>& steps, char joint) {
  std::string text;
  for (const PathStep& step : steps) {
    text += std::exchange(joint, '.');
    switch (step.kind) {
      case StepKind::Attr:
        text += step.name;
        break;
      case StepKind::Class:
        text += "<class>";
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
