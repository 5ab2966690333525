#include "worker/trainer/model/gpt.h"

#include <cassert>
#include <type_traits>
#include <utility>

#include "worker/trainer/model/network.h"

namespace lockstep::trainer {

template <typename T>
struct Gpt<T>::State {
  Shape shape;
  Stage stage;
  size_t rows;  // B * T
  std::unique_ptr<AnyNetwork<T>> network;

  size_t width() const { return static_cast<size_t>(shape.width); }
};

template <typename T>
Gpt<T>::Gpt(const Shape& shape, int batch, Precision precision, Threads& threads,
            const Stage& stage, int held, Share share)
    : state_(std::make_unique<State>()) {
  assert(batch > 0 && shape.context > 0 && shape.width % shape.heads == 0);
  state_->shape = shape;
  state_->stage = stage;
  state_->rows = static_cast<size_t>(batch) * static_cast<size_t>(shape.context);
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::kBf16) {
      state_->network = std::make_unique<Network<float, Bf16>>(shape, batch, threads, stage, held,
                                                               std::move(share));
      return;
    }
  }
  assert(precision == Precision::kFp32);
  state_->network =
      std::make_unique<Network<T, T>>(shape, batch, threads, stage, held, std::move(share));
}

template <typename T>
Gpt<T>::~Gpt() = default;

template <typename T>
T Gpt<T>::Forward(std::span<const T> parameters, std::span<const int32_t> inputs,
                  std::span<const int32_t> targets, size_t slot) {
  assert(parameters.size() == HeldCount(state_->shape, state_->stage));
  assert(inputs.size() == state_->rows && targets.size() == state_->rows);
  return state_->network->Forward(parameters.data(), inputs.data(), targets.data(), slot);
}

template <typename T>
void Gpt<T>::Backward(std::span<const T> parameters, std::span<T> gradients,
                      const std::function<void(size_t from)>& complete, size_t slot) {
  assert(gradients.size() == OwnedCount(state_->shape, state_->stage));
  state_->network->Backward(parameters.data(), gradients.data(), complete, slot);
}

template <typename T>
std::span<T> Gpt<T>::Entry(size_t slot) {
  return {state_->network->Entry(slot), state_->rows * state_->width()};
}

template <typename T>
std::span<const T> Gpt<T>::Exit(size_t slot) const {
  return {state_->network->Exit(slot), state_->rows * state_->width()};
}

template <typename T>
std::span<T> Gpt<T>::Gradient() {
  return {state_->network->Gradient(), state_->rows * state_->width()};
}

template <typename T>
std::span<const T> Gpt<T>::HeadGradient() const {
  return {state_->network->HeadGradient(), HeadCount(state_->shape)};
}

template <typename T>
void Gpt<T>::Logits(std::span<const T> parameters, std::span<const int32_t> inputs,
                    std::span<T> logits) {
  assert(parameters.size() == ParameterCount(state_->shape));
  assert(inputs.size() == state_->rows);
  assert(logits.size() == state_->rows * static_cast<size_t>(state_->shape.vocabulary));
  state_->network->Logits(parameters.data(), inputs.data(), logits.data());
}

template <typename T>
size_t Gpt<T>::ActivationBytes() const {
  return state_->network->bytes();
}

template <typename T>
size_t Gpt<T>::PredictActivationBytes(const Shape& shape, int batch, Precision precision,
                                      const Stage& stage, int held) {
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::kBf16) {
      return Network<float, Bf16>::PredictBytes(shape, batch, stage, held);
    }
  }
  static_cast<void>(precision);
  return Network<T, T>::PredictBytes(shape, batch, stage, held);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace lockstep::trainer
