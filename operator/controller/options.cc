#include "operator/controller/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/man/man_page.h"
#include "base/version.h"
#include "core/model/name_forms.h"
#include "operator/controller/claims.h"

namespace lockstep::control {
namespace {

std::string IsNamespace(const std::string& name) {
  if (core::IsDnsLabel(name)) return "";
  return "\"" + name + "\" is not the name of a namespace: a-z, 0-9 and -, at most 63";
}

std::string IsCondition(const std::string& text) {
  if (text == "none") return "";
  if (text.find('=') > 0 && (text.ends_with("=True") || text.ends_with("=False"))) return "";
  return "\"" + text + "\" is not of the form KernelDeadlock=True";
}

void RefuseTwice(std::vector<std::string> namespaces) {
  std::ranges::sort(namespaces);
  const auto twice = std::ranges::adjacent_find(namespaces);
  if (twice == namespaces.end()) return;
  throw CLI::ValidationError("--namespace", *twice + " is given twice");
}

// Leases of these names say whose jobs are, not who leads.
void RefuseClaims(const Options& options) {
  for (const std::string name : {kClaimLease, kClaimOfAllLease}) {
    if (options.lease_name != name) continue;
    throw CLI::ValidationError("--lease-name",
                               name + " is a name that operators use for something else");
  }
}

std::map<std::string, Quantity> ReadAmounts(const std::vector<std::string>& texts) {
  std::map<std::string, Quantity> amounts;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const Result<Quantity> amount =
        Quantity::Parse(equals == std::string::npos ? std::string_view()
                                                    : std::string_view(text).substr(equals + 1));
    if (equals == 0 || !amount.ok() || *amount <= Quantity()) {
      throw CLI::ValidationError("--agent-resources", text + " is not of the form memory=100Mi");
    }
    amounts[text.substr(0, equals)] = *amount;
  }
  return amounts;
}

}  // namespace

std::optional<int> ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(
      "Runs TrainingJobs on a Kubernetes cluster. Every option can be given in the environment as\n"
      "well: --agent-image as LOCKSTEP_AGENT_IMAGE.",
      "lockstep-operator");
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", std::string("lockstep-operator ") + kVersion + " (HTTP by " +
                                        options->http.name + ")");
  app.add_option(
         "--kubeconfig", options->kubeconfig,
         "Kubeconfig; default: the pod's service account, else $KUBECONFIG, else ~/.kube/config")
      ->envname("LOCKSTEP_KUBECONFIG");
  app.add_option("--context", options->context,
                 "Context of the kubeconfig; default: its current one")
      ->envname("LOCKSTEP_CONTEXT");
  app.add_option("--namespace", options->namespaces,
                 "Work in this namespace only; a Role is enough. Repeat it, or separate names by "
                 "commas. Default: all namespaces")
      ->envname("LOCKSTEP_NAMESPACE")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME")
      ->check(IsNamespace);
  app.add_flag("--kueue", options->kueue,
               "Queue jobs with the label kueue.x-k8s.io/queue-name in Kueue. Without it such jobs "
               "only wait")
      ->envname("LOCKSTEP_KUEUE");
  app.add_option("--system-namespace", options->system_namespace,
                 "Namespace of the master key and the Lease; default: the operator's own")
      ->envname("LOCKSTEP_SYSTEM_NAMESPACE");
  app.add_option("--agent-image", options->agent_image,
                 "The image that holds lockstep-agent. A job keeps the image of its first start")
      ->envname("LOCKSTEP_AGENT_IMAGE")
      ->required();
  app.add_option("--agent-pull-policy", options->delivery.pull_policy,
                 "When a node pulls the agent's image")
      ->envname("LOCKSTEP_AGENT_PULL_POLICY")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}))
      ->capture_default_str();
  std::string delivery = "init-container";
  app.add_option("--agent-delivery", delivery,
                 "How the agent gets into a pod: init-container copies it, image-volume mounts it "
                 "(Kubernetes 1.36)")
      ->envname("LOCKSTEP_AGENT_DELIVERY")
      ->check(CLI::IsMember({"init-container", "image-volume"}))
      ->capture_default_str();
  std::vector<std::string> resources;
  app.add_option("--agent-resources", resources,
                 "Requests of the container that copies the agent, if a LimitRange or quota asks "
                 "for more than 100m CPU and 32Mi: memory=100Mi,ephemeral-storage=1Gi")
      ->envname("LOCKSTEP_AGENT_RESOURCES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("RESOURCE=AMOUNT");
  app.add_option("--trainer-image", options->delivery.trainer_image,
                 "The image with lockstep-trainer, for jobs that name no image and run the "
                 "built-in trainer")
      ->envname("LOCKSTEP_TRAINER_IMAGE");
  app.add_option(
         "--cuda-trainer-image", options->delivery.cuda_trainer_image,
         "The same for jobs that ask for GPUs, with cuBLASLt and NCCL; default: --trainer-image")
      ->envname("LOCKSTEP_CUDA_TRAINER_IMAGE");
  app.add_option("--spare-priority-class", options->delivery.spare_priority_class,
                 "PriorityClass of spare machines' pods; default: none")
      ->envname("LOCKSTEP_SPARE_PRIORITY_CLASS");
  app.add_option("--sick-taints", options->signs.taints,
                 "Keys of taints that make a node sick, with * for any rest, instead of the "
                 "default ones; none: no key. Repeat it, or separate keys by commas")
      ->envname("LOCKSTEP_SICK_TAINTS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KEY");
  app.add_option(
         "--sick-conditions", options->signs.conditions,
         "Conditions that make a node sick, instead of the default ones: KernelDeadlock=True; "
         "none: no condition")
      ->envname("LOCKSTEP_SICK_CONDITIONS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TYPE=STATUS")
      ->check(IsCondition);
  bool cordon_is_well = false;
  app.add_flag("--ignore-cordons", cordon_is_well,
               "Leave machines on cordoned nodes; default: they move (failurePolicy.nodeHealth)")
      ->envname("LOCKSTEP_IGNORE_CORDONS");
  int64_t report_seconds = 0;
  app.add_option(
         "--node-reports", report_seconds,
         "Seconds for which a node shows condition LockstepSuspect after gangs lost machines "
         "or ranks there (status.suspectNodes); 0: never. Not with --namespace")
      ->envname("LOCKSTEP_NODE_REPORTS")
      ->check(CLI::Range(0, 31'536'000, "0..31536000"))
      ->capture_default_str();
  app.add_option("--health-address", options->health_address,
                 "PORT or IP:PORT of /healthz and /readyz")
      ->envname("LOCKSTEP_HEALTH_ADDRESS")
      ->capture_default_str();
  app.add_option("--metrics-address", options->metrics_address, "PORT or IP:PORT of /metrics")
      ->envname("LOCKSTEP_METRICS_ADDRESS")
      ->capture_default_str();
  app.add_option("--lease-name", options->lease_name,
                 "Name of the Lease by which one of several operators leads")
      ->envname("LOCKSTEP_LEASE_NAME")
      ->capture_default_str();
  int64_t lease_seconds = options->lease_duration / seconds(1);
  app.add_option("--lease-duration", lease_seconds,
                 "Seconds after which another operator follows a lost leader")
      ->envname("LOCKSTEP_LEASE_DURATION")
      ->check(CLI::Range(3, 600, "3..600"))
      ->capture_default_str();
  int64_t silence_seconds = options->watch_silence / seconds(1);
  app.add_option("--watch-silence", silence_seconds,
                 "Seconds without a byte after which a watch is opened again. The API server sends "
                 "something about once a minute")
      ->envname("LOCKSTEP_WATCH_SILENCE")
      ->check(CLI::Range(1, 3600, "1..3600"))
      ->capture_default_str();
  app.add_option("--identity", options->identity,
                 "Name in the Lease, of this process only; default: host name and a random part")
      ->envname("LOCKSTEP_IDENTITY");
  app.add_option("--log-level", options->log_level, "Least level that is logged")
      ->envname("LOCKSTEP_LOG_LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  std::string format = "json";
  app.add_option("--log-format", format,
                 "Log a JSON object or a line of text for each event, on stderr")
      ->envname("LOCKSTEP_LOG_FORMAT")
      ->check(CLI::IsMember({"json", "text"}))
      ->capture_default_str();
  app.add_flag_callback(
         "--help-man",
         [&app] {
           const ManFacts facts{
               .version = kVersion, .date = ManDate(), .also = {"lockstep"}, .aliases = {}};
           // Like --version: CLI11 prints the text and exits.
           throw CLI::CallForVersion(ManPage(app, facts), 0);
         })
      ->trigger_on_parse()
      ->group("");  // hidden: for packages
  try {
    app.parse(argc, argv);
    RefuseTwice(options->namespaces);
    RefuseClaims(*options);
    options->delivery.resources = ReadAmounts(resources);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options->lease_duration = seconds(lease_seconds);
  options->node_reports.stay = options->namespaces.empty() ? seconds(report_seconds) : seconds(0);
  options->watch_silence = seconds(silence_seconds);
  options->log_json = format == "json";
  options->signs.cordon = !cordon_is_well;
  options->delivery.method = delivery == "image-volume" ? AgentDelivery::Method::kImageVolume
                                                        : AgentDelivery::Method::kInitContainer;
  return std::nullopt;
}

}  // namespace lockstep::control
