// What each code throws.
#include <memlease/error.h>

#include <string>
#include <typeinfo>

#include "client/api/throw.h"
#include "gtest/gtest.h"
#include "wire/error.h"

namespace memlease {
namespace {

template <typename Class>
void expect_thrown(ErrorCode code) {
  const absl::Status status =
      wire::make_error(static_cast<wire::ErrorCode>(code), "it broke", "mend it");
  try {
    internal::throw_error(status);
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(Class)) << name_of(code);
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.message(), "it broke");
    EXPECT_EQ(error.hint(), "mend it");
  }
  EXPECT_THROW(internal::throw_error(status), Class) << name_of(code);
  EXPECT_EQ(Class("it broke").code(), code);
  EXPECT_STREQ(
      Class("it broke", "mend it").what(),
      ("it broke (mend it) [" + wire::id_of(static_cast<wire::ErrorCode>(code)) + "]").c_str());
}

namespace classes {

using Timeout = TimedOut;

TEST(Errors, EachCodeThrowsItsOwnClass) {
#define MEMLEASE_X(number, name, status) expect_thrown<name>(ErrorCode::name);
  MEMLEASE_ERROR_CODES(MEMLEASE_X)
#undef MEMLEASE_X
}

}  // namespace classes

TEST(Errors, AStatusWithoutACodeIsAMistakeOfOurs) {
  EXPECT_THROW(internal::throw_error(absl::NotFoundError("no file")), Internal);
}

}  // namespace
}  // namespace memlease
