// One callable of several lambdas, for std::visit.
#ifndef LOCKSTEP_BASE_OVERLOADED_H_
#define LOCKSTEP_BASE_OVERLOADED_H_

namespace lockstep {

template <typename... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_OVERLOADED_H_
