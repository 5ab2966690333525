// A generation as the ledger takes it, of a coordinator's record of it (core::GenerationRecord).
#ifndef LOCKSTEP_CORE_STATUS_GENERATION_SPAN_H_
#define LOCKSTEP_CORE_STATUS_GENERATION_SPAN_H_

#include "core/failure/failure.h"
#include "core/status/ledger.h"

namespace lockstep::core {

// `wall(time)`: the wall time of one of the record's times, which may be absent.
template <typename Record, typename Wall>
GenerationSpan SpanOf(const Record& said, const Wall& wall) {
  const bool well = said.failure.cause == Cause::kNone;
  GenerationSpan span;
  span.generation = said.generation;
  span.announced = wall(said.announced);
  span.spawned = wall(said.spawned);
  span.first_step = wall(said.first_step);
  span.halted = wall(said.halted);
  span.stop_sent = wall(said.stop_sent);
  span.ended = wall(said.ended);
  span.over = said.ended && (!well || said.stop_reason);
  span.cause = well && span.over ? Cause::kStopRequested : said.failure.cause;
  span.resumed_at = said.resumed_at;
  span.last_step = said.last_step;
  span.warm = said.warm;
  span.loaded = said.loaded;
  return span;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_STATUS_GENERATION_SPAN_H_
