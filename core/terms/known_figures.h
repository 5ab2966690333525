// The figures that a rank may report under a known name, beside its step, loss and tokens. A member
// and its row are all that a figure needs: the agent takes it from reports, PROGRESS and GET
// /status carry it, and `lockstep run`'s table, the page, TensorBoard's events, status.progress and
// the documents show it. Figures under other names are core::NamedFigure.
#ifndef LOCKSTEP_CORE_TERMS_KNOWN_FIGURES_H_
#define LOCKSTEP_CORE_TERMS_KNOWN_FIGURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/fields.h"

namespace lockstep::core {

// Of one rank, or of several together. None is negative; 0: not reported. The order is that of the
// wire (docs/reference/protocol.md).
struct KnownFigures {
  double teraflops = 0;
  double mfu = 0;
  double scaling = 0;

  friend bool operator==(const KnownFigures&, const KnownFigures&) = default;
};

enum class OverRanks : uint8_t {
  kSum,   // a rate
  kMean,  // a share: over the ranks that report one
};

struct KnownFigure {
  std::string_view name;  // in documents
  double KnownFigures::* value;
  std::string_view reported;  // the program's name for it
  OverRanks over_ranks;
  std::string_view heading;  // of its column in `lockstep run`'s table; "": it has none
  const char* format;        // there, for printf
  double scale;              // of the value there
  const char* meaning;       // for docs/reference/status.md
};

inline constexpr auto kKnownFigures = std::to_array<KnownFigure>({
    {"teraflops", &KnownFigures::teraflops, "teraflops", OverRanks::kSum, "TFLOP/S", "%.4g", 1,
     "Rate of the model's operations, in TFLOP/s."},
    {"mfu", &KnownFigures::mfu, "mfu", OverRanks::kMean, "MFU", "%.1f%%", 100,
     "Model FLOP/s utilization: the rate of the model's operations as a share of the hardware's "
     "peak, from 0 to 1."},
    {"scalingEfficiency", &KnownFigures::scaling, "scaling_efficiency", OverRanks::kMean, "", "", 1,
     "Speed of a rank, divided by that of a rank alone."},
});
static_assert(sizeof(KnownFigures) == kKnownFigures.size() * sizeof(double),
              "each member of KnownFigures has a row in kKnownFigures");

constexpr bool IsKnownFigure(std::string_view reported) {
  for (const KnownFigure& figure : kKnownFigures) {
    if (figure.reported == reported) return true;
  }
  return false;
}

template <size_t... kRow>
constexpr auto FieldsOfKnownFigures(std::index_sequence<kRow...> /*rows*/) {
  return std::tuple(Field{kKnownFigures[kRow].name, kKnownFigures[kRow].value}...);
}
template <>
inline constexpr auto kFields<KnownFigures> =
    FieldsOfKnownFigures(std::make_index_sequence<kKnownFigures.size()>{});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_KNOWN_FIGURES_H_
