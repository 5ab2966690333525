// Our declarations of NVML against the real header. Compiled only where tools/deps --cuda has
// brought it; all of it is decided by the compiler.
#include <gtest/gtest.h>

#ifdef LOCKSTEP_REAL_NVML
#include <nvml.h>

#include <cstddef>

#include "tests/worker/trainer/collectives/nccl/same_abi.h"
#include "worker/trainer/cuda/libraries/nvml_api.h"

namespace lockstep::trainer {
namespace {

EXPECT_SAME_ABI(nvml::Api, init, nvmlInit_v2);
EXPECT_SAME_ABI(nvml::Api, error_string, nvmlErrorString);
EXPECT_SAME_ABI(nvml::Api, by_pci, nvmlDeviceGetHandleByPciBusId_v2);
EXPECT_SAME_ABI(nvml::Api, utilization, nvmlDeviceGetUtilizationRates);
EXPECT_SAME_ABI(nvml::Api, memory, nvmlDeviceGetMemoryInfo);
EXPECT_SAME_ABI(nvml::Api, power, nvmlDeviceGetPowerUsage);
EXPECT_SAME_ABI(nvml::Api, temperature, nvmlDeviceGetTemperature);
EXPECT_SAME_ABI(nvml::Api, clock, nvmlDeviceGetClockInfo);
EXPECT_SAME_ABI(nvml::Api, most_clock, nvmlDeviceGetMaxClockInfo);
EXPECT_SAME_ABI(nvml::Api, index, nvmlDeviceGetIndex);
EXPECT_SAME_ABI(nvml::Api, remapped_rows, nvmlDeviceGetRemappedRows);
EXPECT_SAME_ABI(nvml::Api, retired_pages_pending, nvmlDeviceGetRetiredPagesPendingStatus);
EXPECT_SAME_ABI(nvml::Api, slowdowns, nvmlDeviceGetCurrentClocksEventReasons);
EXPECT_SAME_ABI(nvml::Api, slowdowns, nvmlDeviceGetCurrentClocksThrottleReasons);
EXPECT_SAME_ABI(nvml::Api, ecc_errors, nvmlDeviceGetTotalEccErrors);
EXPECT_SAME_ABI(nvml::Api, fields, nvmlDeviceGetFieldValues);
EXPECT_SAME_ABI(nvml::Api, make_events, nvmlEventSetCreate);
EXPECT_SAME_ABI(nvml::Api, subscribe, nvmlDeviceRegisterEvents);
EXPECT_SAME_ABI(nvml::Api, next_event, nvmlEventSetWait_v2);

#define EXPECT_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(nvml::ours) == static_cast<long long>(theirs))

EXPECT_SAME_VALUE(Code::kSuccess, NVML_SUCCESS);
EXPECT_SAME_VALUE(Code::kNotSupported, NVML_ERROR_NOT_SUPPORTED);
EXPECT_SAME_VALUE(Code::kTimeout, NVML_ERROR_TIMEOUT);
EXPECT_SAME_VALUE(kClockSm, NVML_CLOCK_SM);
EXPECT_SAME_VALUE(kTemperatureGpu, NVML_TEMPERATURE_GPU);
EXPECT_SAME_VALUE(kCorrected, NVML_MEMORY_ERROR_TYPE_CORRECTED);
EXPECT_SAME_VALUE(kUncorrected, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
EXPECT_SAME_VALUE(kVolatile, NVML_VOLATILE_ECC);
EXPECT_SAME_VALUE(kUnsigned, NVML_VALUE_TYPE_UNSIGNED_INT);
EXPECT_SAME_VALUE(kUnsignedLongLong, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
EXPECT_SAME_VALUE(kXidEvent, nvmlEventTypeXidCriticalError);
EXPECT_SAME_VALUE(kNvlinkSent, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
EXPECT_SAME_VALUE(kNvlinkReceived, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
EXPECT_SAME_VALUE(kPowerCap, nvmlClocksEventReasonSwPowerCap);
EXPECT_SAME_VALUE(kHardwareSlowdown, nvmlClocksThrottleReasonHwSlowdown);
EXPECT_SAME_VALUE(kThermalSlowdown, nvmlClocksEventReasonSwThermalSlowdown);
EXPECT_SAME_VALUE(kHardwareThermalSlowdown, nvmlClocksThrottleReasonHwThermalSlowdown);
EXPECT_SAME_VALUE(kPowerBrake, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);

static_assert(sizeof(nvml::Utilization) == sizeof(nvmlUtilization_t));
static_assert(offsetof(nvml::Utilization, gpu) == offsetof(nvmlUtilization_t, gpu));
static_assert(sizeof(nvml::Memory) == sizeof(nvmlMemory_t));
static_assert(offsetof(nvml::Memory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(nvml::EventData) == sizeof(nvmlEventData_t));
static_assert(offsetof(nvml::EventData, type) == offsetof(nvmlEventData_t, eventType));
static_assert(offsetof(nvml::EventData, data) == offsetof(nvmlEventData_t, eventData));
static_assert(sizeof(nvml::FieldValue) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(nvml::FieldValue, scope) == offsetof(nvmlFieldValue_t, scopeId));
static_assert(offsetof(nvml::FieldValue, type) == offsetof(nvmlFieldValue_t, valueType));
static_assert(offsetof(nvml::FieldValue, code) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(nvml::FieldValue, value) == offsetof(nvmlFieldValue_t, value));

TEST(NvmlAbi, IsThatOfTheRealHeader) {}

}  // namespace
}  // namespace lockstep::trainer

#else

TEST(NvmlAbi, IsThatOfTheRealHeader) { GTEST_SKIP() << "no nvml.h: tools/deps --cuda brings it"; }

#endif
