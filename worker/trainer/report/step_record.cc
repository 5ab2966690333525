#include "worker/trainer/report/step_record.h"

#include <array>
#include <cstdio>

#include "base/text/json.h"

namespace lockstep::trainer {

namespace {

double Rate(int64_t tokens, Duration duration) {
  return duration > Duration::zero() ? static_cast<double>(tokens) / Seconds(duration) : 0.0;
}

// Floating-point operations a second, of this rank.
double Flops(const StepRecord& record) {
  return Rate(record.my_tokens, record.whole) * record.flops_per_token;
}

std::string MfuText(const StepRecord& record) {
  if (record.peak_flops <= 0) return "";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "  %.1f %% MFU", Flops(record) / record.peak_flops * 100);
  return text.data();
}

// "teraflops" and "mfu", as far as they are known.
void AddFlops(const StepRecord& record, std::string_view teraflops, std::string_view mfu,
              Numbers& numbers) {
  if (record.flops_per_token > 0) numbers.emplace_back(teraflops, Flops(record) / 1e12);
  if (record.peak_flops > 0) numbers.emplace_back(mfu, Flops(record) / record.peak_flops);
}

void Append(const Numbers& more, Numbers& numbers) {
  numbers.insert(numbers.end(), more.begin(), more.end());
}

std::string LineOf(const Numbers& numbers) {
  OrderedJson json;
  for (const auto& [name, value] : numbers) json[std::string(name)] = value;
  return DumpJson(json);
}

}  // namespace

std::string Line(const StepRecord& record) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "step %lld/%lld  loss %.4f  lr %.1e  norm %.2f  %.0f tokens/s%s  %.0f ms (%.0f ms "
                "waiting)",
                static_cast<long long>(record.step), static_cast<long long>(record.total_steps),
                record.loss, record.learning_rate, record.gradient_norm,
                Rate(record.all_tokens, record.whole), MfuText(record).c_str(),
                Seconds(record.whole) * 1e3, Seconds(record.exposed) * 1e3);
  return text.data();
}

std::string Line(const Validation& validation) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "validation after step %lld: loss %.4f, perplexity %.2f (%lld sequences, %.0f ms)",
                static_cast<long long>(validation.step), validation.loss, validation.perplexity(),
                static_cast<long long>(validation.sequences), Seconds(validation.took) * 1e3);
  return text.data();
}

std::string Line(const Scaling& scaling) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(),
                "scaling efficiency %.2f: %.0f tokens/s a rank, %.0f alone", scaling.efficiency(),
                scaling.together, scaling.alone);
  return text.data();
}

Numbers ForAgent(const Validation& validation) {
  return {{"validation_loss", validation.loss},
          {"validation_perplexity", validation.perplexity()},
          {"validation_seconds", Seconds(validation.took)}};
}

Numbers ForAgent(const StepRecord& record) {
  Numbers numbers = {{"step", static_cast<double>(record.step)},
                     {"total_steps", static_cast<double>(record.total_steps)},
                     {"loss", record.loss},
                     {"tokens", static_cast<double>(record.my_tokens)},
                     {"learning_rate", record.learning_rate},
                     {"gradient_norm", record.gradient_norm},
                     {"skipped_steps", static_cast<double>(record.skipped)},
                     {"step_seconds", Seconds(record.whole)},
                     {"data_seconds", Seconds(record.data)},
                     {"forward_seconds", Seconds(record.forward)},
                     {"backward_seconds", Seconds(record.backward)},
                     {record.pipeline ? "pipeline_wait_seconds" : "collective_wait_seconds",
                      Seconds(record.exposed)},
                     {"optimizer_seconds", Seconds(record.optimizer)},
                     {"checkpoint_seconds", Seconds(record.checkpoint)},
                     {"checkpoint_write_seconds", Seconds(record.checkpoint_write)}};
  AddFlops(record, "teraflops", "mfu", numbers);
  if (record.loaded > Duration::zero()) {
    numbers.emplace_back("checkpoint_load_seconds", Seconds(record.loaded));
  }
  if (record.scaling) {
    numbers.emplace_back("scaling_efficiency", record.scaling->efficiency());
    numbers.emplace_back("alone_tokens_per_second", record.scaling->alone);
  }
  if (record.validation) Append(ForAgent(*record.validation), numbers);
  return numbers;
}

std::string Json(const StepRecord& record) { return LineOf(ForAgent(record)); }

std::string Json(const Validation& validation) {
  Numbers numbers = {{"step", static_cast<double>(validation.step)}};
  Append(ForAgent(validation), numbers);
  return LineOf(numbers);
}

Numbers ForTensorBoard(const Validation& validation) {
  return {{"validation/loss", validation.loss},
          {"validation/perplexity", validation.perplexity()},
          {"time/validation_seconds", Seconds(validation.took)}};
}

Numbers ForTensorBoard(const StepRecord& record) {
  Numbers numbers = {
      {"train/loss", record.loss},
      {"train/learning_rate", record.learning_rate},
      {"train/gradient_norm", record.gradient_norm},
      {"train/skipped_steps", static_cast<double>(record.skipped)},
      {"speed/tokens_per_second", Rate(record.all_tokens, record.whole)},
      {"time/step_seconds", Seconds(record.whole)},
      {"time/data_seconds", Seconds(record.data)},
      {"time/forward_seconds", Seconds(record.forward)},
      {"time/backward_seconds", Seconds(record.backward)},
      {record.pipeline ? "time/pipeline_wait_seconds" : "time/collective_wait_seconds",
       Seconds(record.exposed)},
      {"time/optimizer_seconds", Seconds(record.optimizer)},
      {"time/checkpoint_seconds", Seconds(record.checkpoint)}};
  AddFlops(record, "speed/teraflops", "speed/mfu", numbers);
  if (record.scaling) {
    numbers.emplace_back("speed/scaling_efficiency", record.scaling->efficiency());
  }
  if (record.validation) Append(ForTensorBoard(*record.validation), numbers);
  return numbers;
}

}  // namespace lockstep::trainer
