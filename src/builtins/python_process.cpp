// State of the process: time, random numbers, frames. Everything runs for real except sys.exc_info() and its like.
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

/// sys.exc_info(). The traceback is a stand-in that cannot leave the capture.
Value* exception_info(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  Value* handled = trace.exceptions.current();
  if (!handled) return trace.tuple({trace.none(), trace.none(), trace.none()});
  auto* traceback = trace.make<value::Object>();
  traceback->type = &PyTraceBack_Type;
  Value* exception = trace.see(handled);
  return trace.tuple({protocol::class_value(trace, protocol::type_of(exception)), exception, traceback});
}

Value* exception(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  Value* handled = trace.exceptions.current();
  return handled ? handled : trace.none();
}

}  // namespace

void register_process() {
  add_rows("time", Takes::Asked,
           {
               {"time", &run_for_real<"time.time">},
               {"time_ns", &run_for_real<"time.time_ns">},
               {"perf_counter", &run_for_real<"time.perf_counter">},
               {"perf_counter_ns", &run_for_real<"time.perf_counter_ns">},
               {"monotonic", &run_for_real<"time.monotonic">},
               {"process_time", &run_for_real<"time.process_time">},
               {"sleep", &run_for_real<"time.sleep">},
           });
  add_rows("_random", Takes::Asked,
           {
               {"Random.random", &run_for_real<"random.random">},
               {"Random.getrandbits", &run_for_real<"random.getrandbits">},
               {"Random.seed", &run_for_real<"random.seed">},
               {"Random.getstate", &run_for_real<"random.getstate">},
               {"Random.setstate", &run_for_real<"random.setstate">},
           });
  add_rows("sys", Takes::Asked,
           {
               {"_getframe", &run_for_real<"sys._getframe">},
               {"getrefcount", &run_for_real<"sys.getrefcount">},
               {"settrace", &run_for_real<"sys.settrace">},
               {"setprofile", &run_for_real<"sys.setprofile">},
               {"exit", &run_for_real<"sys.exit">},
               {"exc_info", &exception_info},
               {"exception", &exception},
           });
}

}  // namespace gramme::builtins
