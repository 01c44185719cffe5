// Calls the predicate with a SymInt and collects the guards.
#include "meta/predicate.h"

#include "meta/environment.h"

namespace gramme::meta {

std::vector<shape::Expr> conditions_of(PyObject* predicate, shape::Expr size, shape::Assumptions& assumptions) {
  Environment environment(assumptions);
  try {
    Owned<> answer = take(PyObject_CallOneArg(predicate, environment.number(size).get()));
    std::vector<shape::Expr> result;
    if (is_symbolic(answer.get())) result.push_back(environment.read(answer.get()));
    for (shape::Expr guard : environment.guards()) result.push_back(guard);
    return result;
  } catch (const Inexpressible&) {
    return {};
  }
}

}  // namespace gramme::meta
