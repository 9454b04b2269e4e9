// A sample of many arrays comes in parts, each of which keeps others waiting for a moment only, and
// takes little memory however many nobody reads.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/rpc/report_convert.h"
#include "tests/support/fake_service_host.h"
#include "wire/ids.h"

namespace memlease::testing {
namespace {

constexpr std::uint64_t kSampled = 1200;
constexpr uid_t kViewer = 1001;

// In turns, as AdminService.
void fill(FakeServiceHost& host, const v1::SampleRequest& request, v1::SampleReply& reply) {
  server::SamplePart part;
  while (server::fill(host.world.broker, request, peer_of(kViewer), part, reply)) {
  }
}

class Samples : public ::testing::Test {
 protected:
  Samples() {
    for (std::uint64_t i = 0; i < kSampled; ++i) {
      ids_.push_back(
          wire::to_int(host_.world.create(owner_, spec_of(fmt::format("{}", i), 0604, 1))));
    }
  }
  v1::SampleReply part(std::uint64_t known_through, std::uint64_t after) {
    v1::SampleRequest request;
    request.set_known_through(known_through);
    request.set_after(after);
    v1::SampleReply reply;
    fill(host_, request, reply);
    return reply;
  }
  std::vector<v1::SampleReply> parts(std::uint64_t known_through) {
    std::vector<v1::SampleReply> all;
    do {
      all.push_back(part(known_through, all.empty() ? 0 : all.back().through()));
    } while (all.back().through() != 0);
    return all;
  }
  static std::vector<std::uint64_t> ids_of(const std::vector<v1::SampleReply>& parts) {
    std::vector<std::uint64_t> ids;
    for (const auto& part : parts) {
      ids.insert(ids.end(), part.array_ids().begin(), part.array_ids().end());
    }
    return ids;
  }
  static std::vector<std::uint64_t> described(const std::vector<v1::SampleReply>& parts) {
    std::vector<std::uint64_t> ids;
    for (const auto& part : parts) {
      for (const auto& info : part.described()) ids.push_back(info.array_id());
    }
    return ids;
  }

  FakeServiceHost host_;
  server::Session& owner_ = host_.world.connect(1000);
  std::vector<std::uint64_t> ids_;
};

TEST_F(Samples, HaveAllArraysOnceAndDescribeThoseThatAreNew) {
  const auto first = parts(0);
  EXPECT_EQ(first.size(), 10U);
  EXPECT_EQ(ids_of(first), ids_);
  EXPECT_EQ(described(first), ids_);
  for (const auto& part : first) EXPECT_LT(part.ByteSizeLong(), 64U << 10);

  const auto second = parts(ids_[kSampled - 3]);
  EXPECT_EQ(second.size(), 1U) << "columns of numbers alone are small";
  EXPECT_EQ(ids_of(second), ids_);
  EXPECT_EQ(described(second), (std::vector{ids_[kSampled - 2], ids_[kSampled - 1]}));
}

TEST_F(Samples, GoOnWhereTheArrayThatTheyCameToHasGone) {
  const auto first = part(0, 0);
  const std::uint64_t through = first.through();
  const auto& last = *host_.world.broker.catalog().find(wire::ArrayId{through});
  ASSERT_TRUE(host_.world.broker.withdraw(owner_.peer, std::string(last.name)).ok());
  const auto second = part(0, through);
  EXPECT_EQ(second.array_ids(0), through + 1);
  EXPECT_EQ(ids_of(parts(0)).size(), kSampled - 1);
}

// Who may see nothing must not keep others waiting with that either.
TEST_F(Samples, OfOthersArraysHaveNothing) {
  FakeServiceHost host;
  server::Session& owner = host.world.connect(1000);
  for (int i = 0; i < 9000; ++i) host.world.create(owner, spec_of(fmt::format("{}", i), 0600, 1));
  v1::SampleReply reply;
  fill(host, {}, reply);
  EXPECT_EQ(reply.array_ids_size(), 0);
  EXPECT_NE(reply.through(), 0U) << "there is another part";
}

}  // namespace
}  // namespace memlease::testing
