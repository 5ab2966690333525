// The sizes of the built-in trainer's models that have a name.
#ifndef LOCKSTEP_CORE_MODEL_PRESETS_H_
#define LOCKSTEP_CORE_MODEL_PRESETS_H_

#include "core/model/trainer.h"

namespace lockstep::core {

constexpr ModelShape PresetOf(Model model) {
  switch (model) {
    case Model::kNano:
      return {.layers = 4, .heads = 4, .width = 192, .vocabulary = 256};
    case Model::kMicro:
      return {.layers = 6, .heads = 6, .width = 384, .vocabulary = 256};
    case Model::kGpt2:
      return {.layers = 12, .heads = 12, .width = 768, .vocabulary = 50257};
  }
  return {};
}

inline ModelShape SizesOf(const Trainer& trainer) {
  return trainer.model_shape.value_or(PresetOf(trainer.model));
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_PRESETS_H_
