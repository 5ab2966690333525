#include "operator/controller/jobs/orders_under_way.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using kube::Priority;

// How many more orders may be begun there.
int Fill(OrdersUnderWay& orders, const std::string& name_space, Priority priority) {
  int begun = 0;
  while (begun < 1000 && orders.MayBegin(name_space, priority)) {
    orders.Begin(name_space);
    ++begun;
  }
  return begun;
}

TEST(OrdersUnderWay, ANamespaceWithManyJobsLeavesPlacesForOthers) {
  OrdersUnderWay orders;
  EXPECT_GT(Fill(orders, "crowd", Priority::kNormal), 4);
  EXPECT_TRUE(orders.MayBegin("other", Priority::kBackground));
}

TEST(OrdersUnderWay, WhatIsUrgentFindsAPlaceWhenAllOthersAreTaken) {
  OrdersUnderWay orders;
  for (const char* each : {"a", "b", "c", "d"}) Fill(orders, each, Priority::kNormal);
  EXPECT_FALSE(orders.MayBegin("e", Priority::kNormal));
  EXPECT_TRUE(orders.MayBegin("a", Priority::kUrgent));
  EXPECT_LT(Fill(orders, "a", Priority::kUrgent), 1000) << "bounded all the same";
}

TEST(OrdersUnderWay, AnOrderThatEndsGivesItsPlaceBack) {
  OrdersUnderWay orders;
  Fill(orders, "a", Priority::kNormal);
  orders.End("a");
  EXPECT_EQ(Fill(orders, "a", Priority::kNormal), 1);
}

}  // namespace
}  // namespace lockstep::control
