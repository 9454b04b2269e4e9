// Attributes of arrays in C++, by way of a daemon.
#include <memlease/memlease.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::IsEmpty;

CreateOptions with_attributes(Attributes attributes) {
  CreateOptions options{"u", dtype_of<float>(), {4}};
  options.attributes = std::move(attributes);
  return options;
}

class AttributesOfArrays : public ::testing::Test {
 protected:
  PrivateDaemon daemon;
  Client client = Client::connect(options_for(daemon));
};

TEST_F(AttributesOfArrays, AreThoseOfTheCreatorWhoeverOpens) {
  const Attributes attributes = {{"axes", std::vector<std::string>{"lat", "lon"}},
                                 {"origin", std::vector<double>{0, 0.5}},
                                 {"periodic", true},
                                 {"scale", 0.5},
                                 {"step", 3},
                                 {"tiles", std::vector<std::int64_t>{2, 2}},
                                 {"units", "K"}};
  const Array made = client.create(with_attributes(attributes));
  EXPECT_EQ(made.attributes(), attributes);
  EXPECT_EQ(std::get<std::int64_t>(made.attributes().at("step")), 3);
  made.close();  // so that the next one comes from the daemon
  const std::uint64_t calls = client.calls();
  const Array opened = client.open("u");
  EXPECT_GT(client.calls(), calls);
  EXPECT_EQ(opened.attributes(), attributes);
}

TEST_F(AttributesOfArrays, AreNoneByDefault) {
  EXPECT_THAT(client.create(with_attributes({})).attributes(), IsEmpty());
}

TEST_F(AttributesOfArrays, OfAnArrayThatExistsStay) {
  client.create(with_attributes({{"units", "K"}}));
  auto others = with_attributes({{"units", "degree"}});
  others.exist_ok = true;
  const Array again = client.create(others);
  EXPECT_FALSE(again.created());
  EXPECT_EQ(again.attributes(), (Attributes{{"units", "K"}}));
}

TEST_F(AttributesOfArrays, ThatAreTooLongAreRefusedWithoutACall) {
  const std::uint64_t calls = client.calls();
  const auto too_long = with_attributes({{"note", std::string(1 << 15, 'x')}});
  EXPECT_EQ(error_of([&] { client.create(too_long); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(client.calls(), calls);
}

// The longest ones fit into a call and its answer.
TEST_F(AttributesOfArrays, AtTheLimitGoBothWays) {
  const Attributes most = {{"x", std::vector<std::int64_t>((32768 - 17) / 8, -1)}};
  EXPECT_EQ(client.create(with_attributes(most)).attributes(), most);
}

}  // namespace
}  // namespace memlease::testing
