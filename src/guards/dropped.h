// For tests: leaves out all guards on numbers of one sort, to show that something fails without them.
#pragma once
#include <string>
#include <vector>

#include "guards/shapes.h"

namespace gramme::guards {

/// Names of the sorts.
std::vector<std::string> shape_kinds();
/// Makes captures leave out guards of a sort from now on (an empty name: none). False if there is no such sort.
bool drop(const std::string& kind);
/// The guards without the dropped sort.
ShapeGuards kept(ShapeGuards guards);

}  // namespace gramme::guards
