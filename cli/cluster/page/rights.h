// Whether this user has a right in a namespace, as the API server judges, and the sentences by
// which a page says what it does not show.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_RIGHTS_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_RIGHTS_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/cluster/connection.h"

namespace lockstep::cli {

struct Right {
  const char* verb;
  const char* group;
  const char* resource;
  const char* subresource;  // "": none
};

// Calls back once, from a thread of the client. An error: the API server gave no answer.
void AskRight(Connection& cluster, const Right& right, const std::string& name_space,
              std::function<void(Result<bool> allowed)> done);

// "pods/exec: create is missing in namespace team-a, so stacks are not shown". `hidden`: "stacks
// are".
std::string MissingRight(const std::string& resource, const std::string& verbs,
                         const std::string& name_space, const std::string& hidden);

// In one line of at most 512 bytes, because others have written parts of it.
std::string AsNote(std::string_view sentence);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_RIGHTS_H_
