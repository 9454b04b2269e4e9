// The text format of Prometheus, byte for byte.
#include <array>

#include "gtest/gtest.h"
#include "server/telemetry/exposition.h"

namespace memlease::server {
namespace {

using Type = Exposition::Type;

TEST(ExpositionTest, AMetricHasItsHelpAndTypeInFrontOfItsSamples) {
  Exposition out;
  out.metric("arrays", Type::kGauge, "What there is.");
  out.sample({}, std::uint64_t{3});
  out.sample({{"device", "host"}, {"state", "named"}}, std::uint64_t{18446744073709551615U});
  out.metric("cpu_seconds_total", Type::kCounter, "What was used.");
  out.sample({}, 0.25);
  EXPECT_EQ(out.text(),
            "# HELP arrays What there is.\n# TYPE arrays gauge\narrays 3\n"
            "arrays{device=\"host\",state=\"named\"} 18446744073709551615\n"
            "# HELP cpu_seconds_total What was used.\n# TYPE cpu_seconds_total counter\n"
            "cpu_seconds_total 0.25\n");
}

TEST(ExpositionTest, ALabelCannotEndItsSample) {
  Exposition out;
  out.metric("info", Type::kGauge, "-");
  out.sample({{"version", "a\"b\\c\nd"}}, std::uint64_t{1});
  EXPECT_NE(out.text().find("info{version=\"a\\\"b\\\\c\\nd\"} 1\n"), std::string::npos);
}

TEST(ExpositionTest, BucketsOfAHistogramAddUp) {
  Exposition out;
  out.metric("wait_seconds", Type::kHistogram, "-");
  const std::array<Exposition::Bucket, 2> buckets = {{{0.001, 2}, {10, 3}}};
  out.histogram({{"kind", "slot"}}, buckets, 1, 42.5);
  EXPECT_EQ(out.text(),
            "# HELP wait_seconds -\n# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{kind=\"slot\",le=\"0.001\"} 2\n"
            "wait_seconds_bucket{kind=\"slot\",le=\"10\"} 5\n"
            "wait_seconds_bucket{kind=\"slot\",le=\"+Inf\"} 6\n"
            "wait_seconds_sum{kind=\"slot\"} 42.5\nwait_seconds_count{kind=\"slot\"} 6\n");
}

}  // namespace
}  // namespace memlease::server
