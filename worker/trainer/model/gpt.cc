#include "worker/trainer/model/gpt.h"

#include <cassert>
#include <type_traits>

#include "worker/trainer/model/network.h"

namespace lockstep::trainer {

template <typename T>
struct Gpt<T>::State {
  Shape shape;
  size_t rows;  // B * T
  std::unique_ptr<AnyNetwork<T>> network;
};

template <typename T>
Gpt<T>::Gpt(const Shape& shape, int batch, Precision precision, Threads& threads)
    : state_(std::make_unique<State>()) {
  assert(batch > 0 && shape.context > 0 && shape.width % shape.heads == 0);
  state_->shape = shape;
  state_->rows = static_cast<size_t>(batch) * static_cast<size_t>(shape.context);
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::kBf16) {
      state_->network = std::make_unique<Network<float, Bf16>>(shape, batch, threads);
      return;
    }
  }
  assert(precision == Precision::kFp32);
  state_->network = std::make_unique<Network<T, T>>(shape, batch, threads);
}

template <typename T>
Gpt<T>::~Gpt() = default;

template <typename T>
T Gpt<T>::Forward(std::span<const T> parameters, std::span<const int32_t> inputs,
                  std::span<const int32_t> targets) {
  assert(parameters.size() == ParameterCount(state_->shape));
  assert(inputs.size() == state_->rows && targets.size() == state_->rows);
  return state_->network->Forward(parameters.data(), inputs.data(), targets.data());
}

template <typename T>
void Gpt<T>::Backward(std::span<const T> parameters, std::span<T> gradients,
                      const std::function<void(size_t from)>& complete) {
  assert(gradients.size() == ParameterCount(state_->shape));
  state_->network->Backward(parameters.data(), gradients.data(), complete);
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
size_t Gpt<T>::PredictActivationBytes(const Shape& shape, int batch, Precision precision) {
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::kBf16) return Network<float, Bf16>::PredictBytes(shape, batch);
  }
  static_cast<void>(precision);
  return Network<T, T>::PredictBytes(shape, batch);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace lockstep::trainer
