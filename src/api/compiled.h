// Compiled callables inside captured code: an entry is inlined as the function it wraps, a compiled module as a module.
#pragma once

namespace gramme::api {

/// Once, after the types are made.
void register_compiled();

}  // namespace gramme::api
