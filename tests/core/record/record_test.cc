#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Colour : uint8_t { kRed, kBlue };

struct Wheel {
  int spokes = 3;
  std::optional<Colour> colour;
};

struct Car {
  std::string name;
  uint32_t seats = 4;
  Duration age{};
  std::optional<Duration> sold;
  Duration warranty = seconds(30);
  std::vector<int> signals;
  std::vector<Wheel> wheels;
  Wheel spare;
  std::string note;
  double weight = 0;
};

}  // namespace

template <>
inline constexpr auto kEnumNames<Colour> =
    std::to_array<EnumName<Colour>>({{Colour::kRed, "Red"}, {Colour::kBlue, "Blue"}});

template <>
inline constexpr auto kFields<Wheel> =
    std::tuple(Field{"spokes", &Wheel::spokes}, Field{"colour", &Wheel::colour});

template <>
inline constexpr auto kFields<Car> = std::tuple(
    Field{"name", &Car::name, Required{}}, Field{"seats", &Car::seats},
    Field{"ageSeconds", &Car::age, InSeconds{}, Always{}},
    Field{"soldSeconds", &Car::sold, InSeconds{}, Always{}},
    Field{"warranty", &Car::warranty, Within{seconds(2), minutes(10)}},
    Field{"signals", &Car::signals, Signals{}}, Field{"wheels", &Car::wheels, AtMost{2}, Always{}},
    Field{"spare", &Car::spare, Whole{}}, Field{"note", &Car::note, CutTo{5}},
    Field{"weight", &Car::weight});

namespace {

std::string Json(const Car& car) { return WriteJson(WriteRecord(car)); }

Result<Car> Parse(std::string_view json) { return ParseRecord<Car>(json, 1024, "car"); }

std::string ErrorOf(std::string_view json) {
  Result<Car> car = Parse(json);
  return car.ok() ? "" : car.error().message;
}

TEST(Record, OfDefaultsIsWrittenAsItsTableSays) {
  EXPECT_EQ(Json(Car()),
            R"({"name":"","ageSeconds":0,"soldSeconds":null,"wheels":[],"spare":{"spokes":3}})");
}

TEST(Record, ReadsBackAsItWasWritten) {
  Car car;
  car.name = "Ada";
  car.seats = 4294967295;
  car.age = milliseconds(1500);
  car.sold = seconds(-2);
  car.warranty = seconds(90);
  car.signals = {7, 9};
  car.wheels = {{5, Colour::kBlue}, {3, std::nullopt}};
  car.weight = 1e-7;
  const std::string json = Json(car);
  EXPECT_THAT(json, HasSubstr(R"("ageSeconds":1.5,"soldSeconds":-2,"warranty":"1m30s")"));
  EXPECT_THAT(json, HasSubstr(R"("signals":["SIGBUS","SIGKILL"])"));
  Result<Car> read = Parse(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(Json(*read), json);
  EXPECT_EQ(read->age, car.age);
  EXPECT_EQ(read->sold, car.sold);
  EXPECT_EQ(read->wheels[0].colour, Colour::kBlue);
  EXPECT_EQ(read->wheels[1].colour, std::nullopt);
}

TEST(Record, SignalsAreNumbersForProgramsThatKnowNoNames) {
  Car car;
  car.signals = {7};
  const std::string json = WriteJson(RecordWriter(Defaults::kOmit, SignalsAs::kNumbers).Write(car));
  EXPECT_THAT(json, HasSubstr(R"("signals":[7])"));
  EXPECT_THAT(Parse(json)->signals, ElementsAre(7));
}

TEST(Record, ATextIsCutBetweenTwoCharacters) {
  Car car;
  car.note = "abcd\xc3\xa9";
  EXPECT_THAT(Json(car), HasSubstr(R"("note":"abcd")"));
}

TEST(Record, ANumberThatJsonDoesNotHaveIsLeftOut) {
  Car car;
  car.weight = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Json(car), Not(HasSubstr("weight")));
}

TEST(Record, OfAProgramOfAnotherVersionIsReadForWhatIsKnown) {
  Result<Car> car = Parse(
      R"({"name":"Ada","moons":[1],"seats":null,"wheels":[{"colour":"","spin":1}],"spare":{}})");
  ASSERT_TRUE(car.ok()) << car.error().message;
  EXPECT_EQ(car->seats, 4u);
  EXPECT_EQ(car->wheels.at(0).colour, std::nullopt);
}

TEST(Record, OfAProgramNamesTheFirstThingThatIsWrong) {
  EXPECT_EQ(ErrorOf("[]"), "car: must be an object (found a list)");
  EXPECT_EQ(ErrorOf(R"({"seats":1})"), "car.name: is missing");
  EXPECT_EQ(ErrorOf(R"({"name":"a","seats":-1,"wheels":3})"),
            "car.seats: must lie between 0 and 4294967295 (found the number -1)");
  EXPECT_EQ(ErrorOf(R"({"name":"a","wheels":[{},{"colour":"Blu"}]})"),
            "car.wheels[1].colour: must be Red or Blue; did you mean \"Blue\"? (found the text "
            "\"Blu\")");
  EXPECT_EQ(ErrorOf(R"({"name":"a","warranty":"1s"})"),
            "car.warranty: must lie between 2s and 10m (found the text \"1s\")");
  EXPECT_EQ(ErrorOf(R"({"name":"a","ageSeconds":1e300})"), "car.ageSeconds: is out of range");
  EXPECT_EQ(ErrorOf(R"({"name":"a","signals":[65]})"),
            "car.signals[0]: must be the name of a signal, as in SIGBUS (found the number 65)");
}

TEST(Record, BeyondItsLimitsIsRefused) {
  EXPECT_EQ(Parse(R"({"name":"a","wheels":[{},{},{}]})").error().kind, ErrorKind::kTooLarge);
  EXPECT_EQ(Parse(std::string(1025, ' ')).error().kind, ErrorKind::kTooLarge);
  EXPECT_FALSE(Parse(std::string(1000, '[')).ok());
}

TEST(Record, OfAPersonIsHeldToItsNamesAndEveryProblemHasItsPlace) {
  Document document =
      ReadJson("{\"name\": \"a\",\n \"seets\": 1,\n \"wheels\": [{\"spokes\": \"3\"}]}");
  ASSERT_TRUE(document.root);
  RecordReader reader(Author::kUser, "");
  Car car;
  reader.Read(*document.root, car);
  EXPECT_EQ(Format(reader.TakeProblems(), "car.json"),
            "car.json:2:2: error: seets: unknown field; did you mean \"seats\"?\n"
            "car.json:3:24: error: wheels[0].spokes: must be a whole number; write it without "
            "quotes (found the text \"3\")\n");
}

}  // namespace
}  // namespace lockstep::core
