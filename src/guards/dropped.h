// For tests: leaves out all guards of one kind, so that a test can show that something fails without them.
#pragma once
#include <string>
#include <vector>

#include "guards/shapes.h"

namespace gramme::guards {

/// Names of the sorts.
std::vector<std::string> shape_kinds();
/// Captures leave out guards of the sort from now on; none, if the name is empty. False if there is no such sort.
bool drop(const std::string& kind);
/// Without what is left out.
ShapeGuards kept(ShapeGuards guards);

}  // namespace gramme::guards
