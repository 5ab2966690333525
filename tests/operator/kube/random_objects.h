// Objects as an API server sends them, with random contents, for tests of what reads them.
#ifndef LOCKSTEP_TESTS_OPERATOR_KUBE_RANDOM_OBJECTS_H_
#define LOCKSTEP_TESTS_OPERATOR_KUBE_RANDOM_OBJECTS_H_

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace lockstep::kube {

class RandomObjects {
 public:
  using Json = nlohmann::ordered_json;

  // `odd`: how often, of 100 values, one is null, of another type or absent.
  explicit RandomObjects(uint64_t seed, int odd = 0) : random_(seed), odd_(odd) {}

  Json Pod();
  Json TrainingJob();
  Json Service();
  Json Slice();
  Json Node();

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  Json Maybe(Json value);
  std::string Text();
  std::string Time();
  Json Metadata(const std::string& prefix);
  Json ManagedFields();
  Json Container(const std::string& name);
  Json State();
  Json Condition(const std::string& type);

  std::mt19937_64 random_;
  int odd_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_TESTS_OPERATOR_KUBE_RANDOM_OBJECTS_H_
