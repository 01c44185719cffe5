#pragma once
#include <Python.h>

namespace frames {

/// Functions of the module that rooms.cpp defines.
extern PyMethodDef of_rooms[];

}  // namespace frames
