// Exceptions that come to the program from outside, wherever it happens to be.
#pragma once

namespace gramme {

/// Is the exception that is set none of what runs: no Exception (KeyboardInterrupt, SystemExit), or raised by a handler
/// of a signal? The program gets it where it stands. What raises it while gramme works is no failure of the backend, a
/// graph or an operator.
bool is_interruption();

}  // namespace gramme
