#include <set>

#include "operator/policy/loss.h"

namespace lockstep::control {
namespace {

using Alike = ReplacementState::Alike;

// Repeated ends on one node count, because there may be no other node.
constexpr int kMostOnOneNode = 3;

const std::string& NodeOf(const Loss& loss) { return loss.machine->last_seen->node; }

// The same decision may be made again, until it is written: it counts once.
void Note(ReconcileContext& context, const Loss& loss) {
  Alike& alike = context.StateOf<&PolicyState::replacement>().alike[loss.likeness];
  if (context.now.boot - alike.last > context.spec().failure_policy.reset_after) alike = {};
  alike.last = context.now.boot;
  alike.nodes.insert(NodeOf(loss));
  if (alike.next_round == context.next.epoch || loss.machine->attempt < alike.next_round) return;
  ++alike.rounds;
  alike.next_round = context.next.epoch;
}

bool IsTheJobs(const Loss& loss, const Alike& alike) {
  return loss.payer == Payer::kJob || alike.nodes.size() > 1 || alike.rounds >= kMostOnOneNode;
}

std::string HowOften(const Alike& alike) {
  if (alike.nodes.size() > 1)
    return "; the same on " + std::to_string(alike.nodes.size()) + " nodes";
  return alike.rounds > 1 ? "; the same " + std::to_string(alike.rounds) + " times" : "";
}

// Whether an earlier decision charged this round.
bool IsCharged(const Alike& alike, const ReconcileContext& context) {
  return alike.charged >= alike.next_round && alike.charged != context.next.epoch;
}

}  // namespace

void JudgeAlike(ReconcileContext& context, std::vector<Loss>& losses) {
  for (const Loss& loss : losses) {
    if (!loss.likeness.empty()) Note(context, loss);
  }
  std::set<std::string> charged;
  for (Loss& loss : losses) {
    if (loss.likeness.empty()) continue;
    Alike& alike = context.StateOf<&PolicyState::replacement>().alike.at(loss.likeness);
    if (!IsTheJobs(loss, alike)) continue;
    loss.kind = EndKind::kJob;
    loss.what += HowOften(alike);
    loss.counted = IsCharged(alike, context) || !charged.insert(loss.likeness).second;
    if (!loss.counted) alike.charged = context.next.epoch;
  }
}

}  // namespace lockstep::control
