// A gang whose machines have measured themselves and each other, as its coordinator hears it.
#ifndef LOCKSTEP_TESTS_WORKER_AGENT_METRICS_MEASURED_GANG_H_
#define LOCKSTEP_TESTS_WORKER_AGENT_METRICS_MEASURED_GANG_H_

#include <string>
#include <vector>

#include "core/gang/coordinator/coordinator.h"

namespace lockstep::agent {

// Of a coordinator that takes this, machine i measures figures[i], and links as fast as its
// partners'.
inline core::CoordinatorConfig ToBeMeasured(size_t machines) {
  core::CoordinatorConfig config;
  config.job_uid = "job";
  config.attempt = 1;
  config.machines = static_cast<uint32_t>(machines);
  config.processes = 1;
  config.preflight.emplace();
  return config;
}

inline void Measure(core::Coordinator* coordinator, Time now,
                    const std::vector<core::Figures>& figures) {
  const auto machines = static_cast<uint32_t>(figures.size());
  for (uint32_t i = 0; i < machines; ++i) {
    core::Hello hello;
    hello.job_uid = "job";
    hello.machine = i;
    hello.attempt = 1;
    hello.machines = machines;
    hello.processes = 1;
    hello.machine0_attempt = 1;
    hello.predecessor_dead = true;
    hello.now = now;
    coordinator->OnMessage(now, i + 1, hello);
    core::Pong pong;
    pong.ping_sent = pong.now = now;
    coordinator->OnMessage(now, i + 1, pong);
  }
  for (const bool linked : {false, true}) {
    for (uint32_t i = 0; i < machines; ++i) {
      core::Measured measured;
      measured.id = 1;
      measured.linked = linked;
      measured.address = "machine-" + std::to_string(i);
      if (linked) measured.rates.assign(machines - 1, 5);
      if (!linked) measured.figures = figures[i];
      coordinator->OnMessage(now, i + 1, measured);
    }
  }
}

}  // namespace lockstep::agent

#endif  // LOCKSTEP_TESTS_WORKER_AGENT_METRICS_MEASURED_GANG_H_
