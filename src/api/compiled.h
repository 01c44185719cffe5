// Compiled callables inside captured code: an entry is inlined as the function it wraps, a compiled module as a module.
#pragma once

namespace gramme::api {

/// Called once, after the types exist.
void register_compiled();

}  // namespace gramme::api
