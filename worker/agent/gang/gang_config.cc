#include "worker/agent/gang/gang_config.h"

#include <cstring>

#include "base/crypto/tls_psk.h"
#include "base/file.h"
#include "base/text/endpoint.h"
#include "core/model/launch.h"
#include "core/model/roles.h"
#include "core/model/shortcuts.h"

namespace lockstep::agent {
namespace {

core::ProcessKind KindOfProcesses(const core::Spec& spec) {
  if (core::StartsFromMachine0(spec)) return core::ProcessKind::kLauncher;
  return spec.launch == core::Launch::kPerMachine ? core::ProcessKind::kMachine
                                                  : core::ProcessKind::kRank;
}

}  // namespace

Result<Key> LoadKey(const core::AgentConfig& config) {
  if (config.key) return *config.key;
  Key key{};
  Result<std::string> bytes = ReadFile(config.key_file, key.size());
  if (!bytes.ok() && bytes.error().kind != ErrorKind::kTooLarge) return bytes.error();
  if (!bytes.ok() || bytes->size() != key.size()) {
    return Error::Invalid("the key file " + config.key_file + " must hold exactly 32 bytes");
  }
  std::memcpy(key.data(), bytes->data(), key.size());
  return key;
}

Result<std::string> SecretOf(const core::AgentConfig& config, core::Generation generation) {
  const Result<Key> key = LoadKey(config);
  if (!key.ok()) return key.error();
  const Result<Key> derived = DeriveKey(*key, config.job_uid, "pmix " + generation.ToString());
  if (!derived.ok()) return derived.error();
  std::string secret;
  for (size_t i = 0; i < derived->size() / 2; ++i) {
    secret += "0123456789abcdef"[(*derived)[i] >> 4];
    secret += "0123456789abcdef"[(*derived)[i] & 0xf];
  }
  return secret;
}

bool KeepsMemory(const core::AgentConfig& config) {
  return config.job.spec.checkpoint.memory.size.has_value();
}

uint64_t MemoryCopies(const core::AgentConfig& config) {
  const core::Spec& spec = config.job.spec;
  return spec.checkpoint.memory.replicas > 0 && spec.num_machines > 1 ? 1 : 0;
}

// `lockstep run` copies code itself (cli/sync).
bool SyncsCode(const core::AgentConfig& config) {
  return config.job.spec.sync.has_value() && !config.shares_computer;
}

core::CoordinatorConfig ForCoordinator(const core::AgentConfig& config) {
  const core::Spec& spec = config.job.spec;
  core::CoordinatorConfig c;
  c.job_uid = config.job_uid;
  c.attempt = config.attempt;
  c.machines = static_cast<uint32_t>(spec.num_machines);
  c.processes = static_cast<uint32_t>(core::ProcessesStarted(config.job.spec));
  c.names = {KindOfProcesses(spec), core::RanksByRole(spec)};
  c.deciders = core::DecidingRanks(spec);
  c.alone = core::AloneRanks(spec);
  c.policy = spec.failure_policy;
  c.grace = spec.grace_period;
  c.hang_timeout = spec.health.hang_timeout;
  c.restart_hangs = spec.health.hang_action == core::HangAction::kRestart;
  c.output_counts = spec.progress.from == core::ProgressFrom::kOutput;
  c.predecessor_dead = config.predecessor_dead;
  c.object_store = !config.checkpoint_url.empty();
  c.checkpoint_path = c.object_store ? config.checkpoint_url : config.checkpoint_path;
  c.attempts = config.attempts;
  c.memory = KeepsMemory(config);
  c.memory_copies = MemoryCopies(config) > 0;
  c.persist_every = spec.checkpoint.persist_every;
  c.ports = core::RowOf(spec.framework).ports;
  c.one_computer = config.shares_computer;
  c.elastic = spec.elastic.has_value();
  c.sync = SyncsCode(config);
  if (spec.preflight.enabled) {
    c.preflight = spec.preflight.limits();
    c.preflight->gpus = core::UsesGpus(spec);
  }
  return c;
}

core::MemberConfig ForMember(const core::AgentConfig& config) {
  core::MemberConfig m;
  m.job_uid = config.job_uid;
  m.machine = config.machine;
  m.attempt = config.attempt;
  m.machines = static_cast<uint32_t>(config.job.spec.num_machines);
  m.processes = static_cast<uint32_t>(core::ProcessesStarted(config.job.spec));
  m.machine0_attempt = config.machine0_attempt;
  m.predecessor_dead = config.predecessor_dead;
  m.address = config.advertise;
  m.deciders = core::DecidingRanks(config.job.spec);
  m.alone = core::AloneRanks(config.job.spec);
  m.output_counts = config.job.spec.progress.from == core::ProgressFrom::kOutput;
  const Result<Endpoint> listen = ParseEndpoint(config.listen);
  if (KeepsMemory(config) && listen.ok()) {
    m.memory_address = EndpointText(config.advertise, listen->port());
  }
  if (SyncsCode(config) && listen.ok()) {
    m.code_address = EndpointText(config.advertise, listen->port());
  }
  return m;
}

}  // namespace lockstep::agent
