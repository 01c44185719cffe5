// Printing many sources: what several have in common is printed once.
#pragma once
#include "source/source.h"

namespace gramme::source {

class Printer {
 public:
  /// As Source::print. Good while the printer lives, and as long as no source is shown as another variable meanwhile.
  const std::string& operator()(const Source* source);

 private:
  std::unordered_map<const Source*, std::string> texts_;
};

}  // namespace gramme::source
