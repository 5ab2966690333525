// The operator's command line and environment. docs/operate/operator.md lists them.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OPTIONS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "operator/controller/node_reports.h"
#include "operator/controller/observe/sick_nodes.h"
#include "operator/kube/http/transport_factory.h"
#include "operator/objects/pod_object.h"

namespace lockstep::control {

struct Options {
  kube::HttpLibrary http = kube::kCurl;  // the HTTP library of this build; not an option
  std::string kubeconfig;                // "": in the cluster, else $KUBECONFIG or ~/.kube/config
  std::string context;
  std::vector<std::string> namespaces;  // none: all of them
  bool kueue = false;                   // jobs with a queue wait for Kueue's word
  std::string system_namespace;         // "": the operator's own
  std::string agent_image;
  AgentDelivery delivery;
  SicknessSigns signs;
  NodeReportOptions node_reports;
  std::string health_address = "8081";
  std::string metrics_address = "8080";
  std::string lease_name = "lockstep-operator";
  Duration lease_duration = seconds(15);
  Duration watch_silence = seconds(120);
  std::string identity;  // "": host name and a random part
  std::string log_level = "info";
  bool log_json = true;
};

// The exit code when the program is to end at once (--help, --version, a mistake), with what there
// was to say printed.
std::optional<int> ParseOptions(int argc, char** argv, Options* options);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OPTIONS_H_
