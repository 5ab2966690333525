// The built-in trainer's models that have a name.
#ifndef LOCKSTEP_CORE_MODEL_PRESETS_H_
#define LOCKSTEP_CORE_MODEL_PRESETS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::core {

struct Preset {
  std::string_view name;
  int32_t layers;
  int32_t heads;
  int32_t width;
  int32_t vocabulary;
};

inline constexpr std::array kPresets = {Preset{"nano", 4, 4, 192, 256},
                                        Preset{"micro", 6, 6, 384, 256},
                                        Preset{"gpt2", 12, 12, 768, 50257}};

// Null: there is none of that name.
constexpr const Preset* FindPreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_PRESETS_H_
