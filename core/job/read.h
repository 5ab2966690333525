// From a document's tree to a typed job: every wrong type, unknown name and value out of range is
// told with its place.
#ifndef LOCKSTEP_CORE_JOB_READ_H_
#define LOCKSTEP_CORE_JOB_READ_H_

#include "core/job/node.h"
#include "core/job/parse.h"

namespace lockstep::core {

ParseResult ReadJob(const Node& document);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_JOB_READ_H_
