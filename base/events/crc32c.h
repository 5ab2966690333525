// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, as RFC 3720 uses it.
#ifndef LOCKSTEP_BASE_EVENTS_CRC32C_H_
#define LOCKSTEP_BASE_EVENTS_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace lockstep::events {

// By the processor's instruction where it has one (SSE4.2), else by the table.
uint32_t Crc32c(std::string_view bytes);

// By the table, on any processor.
uint32_t Crc32cByTable(std::string_view bytes);

}  // namespace lockstep::events

#endif  // LOCKSTEP_BASE_EVENTS_CRC32C_H_
