// Prints many sources: a part that several share is printed once.
#pragma once
#include "source/source.h"

namespace gramme::source {

class Printer {
 public:
  /// As Source::print(). Valid while the printer lives and until show_as() renames a source.
  const std::string& operator()(const Source* source);

 private:
  std::unordered_map<const Source*, std::string> texts_;
};

}  // namespace gramme::source
