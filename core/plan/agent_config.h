// AgentConfig: the configuration of one agent, from `lockstep run` or the operator, which start it.
// It is one JSON object, passed over an inherited pipe (`--config-fd N`) or, where the key is a
// file, in the environment (LOCKSTEP_CONFIG). docs/reference/protocol.md lists the fields.
//
// Both the reader and the writer are here. Pure functions: nothing is opened or looked up.
#ifndef LOCKSTEP_CORE_PLAN_AGENT_CONFIG_H_
#define LOCKSTEP_CORE_PLAN_AGENT_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/hkdf.h"
#include "base/result.h"
#include "core/model/spec.h"

namespace lockstep::core {

inline constexpr size_t kMaxAgentConfig = size_t{1} << 20;  // bytes of its JSON

// Begins the names of variables that the agent keeps from its ranks and gives to lockstep-s3,
// without the prefix: the keys of the Secret checkpoint.secret.
inline constexpr std::string_view kStorePrefix = "LOCKSTEP_STORE_";

struct AgentConfig {
  std::string job_uid;
  TrainingJob job;
  uint32_t machine = 0;
  uint32_t attempt = 1;
  uint32_t machine0_attempt = 1;  // the highest known when this was made
  uint32_t epoch = 1;             // at least every attempt
  uint32_t first_attempt = 1;     // of the job's life; of `lockstep run`, of this run
  bool predecessor_dead = true;   // nothing of this machine's earlier attempts is alive
  // For machine 0: each machine's attempt when this was made (0: none yet), so that the coordinator
  // refuses lower ones that are made late. Empty: not known.
  std::vector<uint32_t> attempts;

  std::optional<Key> key;  // the job's own key; stands only in what goes through a pipe
  std::string key_file;    // exactly one of the two; a file of 32 raw bytes

  std::string coordinator;     // machine 0's TLS address, IP:PORT ([IP]:PORT for IPv6)
  std::string listen;          // this agent's own
  std::string metrics_listen;  // "": none
  std::string advertise;       // the IP that is MASTER_ADDR while this is machine 0

  std::string run_dir;           // a folder for this agent alone: socket, local dir, error files
  std::string cache_dir;         // a folder for what programs compile; "": one in run_dir
  std::string checkpoint_path;   // "": no checkpoints in a folder
  std::string checkpoint_url;    // s3://BUCKET/PREFIX for those from memory; "": none
  std::string log_path;          // a folder for one file a rank and generation; "": none
  std::string termination_path;  // the file that gets the termination message; "": none
  std::string interface;         // for NCCL_ and GLOO_SOCKET_IFNAME; "": the agent looks itself
  bool marks_stderr = false;     // console lines of stderr begin "[m0 r3 err]": see LogPumpOptions
  bool shares_computer = false;  // the job's machines are all on this computer: each has its part
};

// One line, the key in hexadecimal when there is one: keep it out of logs.
std::string ToJson(const AgentConfig& config);

// Strict: an unknown, missing or repeated field and a value out of range are errors, and the one
// Invalid error names all of them. TooLarge beyond kMaxAgentConfig. Messages never hold the key.
Result<AgentConfig> ParseAgentConfig(std::string_view json);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_AGENT_CONFIG_H_
