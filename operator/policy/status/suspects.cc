#include <algorithm>
#include <iterator>
#include <utility>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr int kFewFailures = 2;  // as many do not come from one node by chance

}  // namespace

void NoteSuspect(ReconcileContext& context, const std::string& node, const char* evidence,
                 const std::string& message) {
  if (node.empty()) return;
  std::vector<core::SuspectNode>& suspects = context.next.suspect_nodes;
  const auto same = [&](const core::SuspectNode& each) {
    return each.node == node && each.evidence == evidence;
  };
  auto found = std::ranges::find_if(suspects, same);
  if (found == suspects.end()) {
    // The weakest makes room.
    if (suspects.size() >= core::kMaxSuspectNodes) suspects.pop_back();
    found = suspects.insert(suspects.end(), core::SuspectNode{.node = node, .evidence = evidence});
  }
  ++found->count;
  found->last = context.now.wall;
  found->message = message;
  for (; found != suspects.begin() && std::prev(found)->count < found->count; --found) {
    std::iter_swap(found, std::prev(found));
  }
}

void NoteFailureOn(ReconcileContext& context, const core::LastFailure& last) {
  if (last.node.empty() || last.failure.rank < 0) return;
  // A program that fails restarts where it is, which says nothing of the node.
  if (core::ClassOf(last.failure.cause) == core::CauseClass::kApplication) return;
  auto& failures = context.StateOf<&PolicyState::suspects>().failures[last.node];
  // It is decided again until it is written.
  if (std::exchange(failures.last, last.generation) != last.generation) ++failures.count;
  if (failures.count >= kFewFailures) {
    NoteSuspect(context, last.node, kFailedThere, last.failure.message);
  }
}

}  // namespace lockstep::control
