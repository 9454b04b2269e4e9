// A program's catch of what libmemlease.so throws. The program hides its symbols, as many do.
#include <memlease/memlease.h>

#include <exception>
#include <stdexcept>

#include "gtest/gtest.h"

namespace memlease {
namespace {

TEST(CaughtErrors, AreOfTheirClassAndNoOther) {
  try {
    static_cast<void>(parse_dtype("quadruple"));
    ADD_FAILURE() << "there is no such dtype";
  } catch (const NotFound&) {
    ADD_FAILURE() << "of another class";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
  }
}

TEST(CaughtErrors, AreErrorsWhateverTheirClass) {
  EXPECT_THROW(static_cast<void>(parse_dtype("quadruple")), Error);
  EXPECT_THROW(static_cast<void>(parse_dtype("quadruple")), std::runtime_error);
}

TEST(CaughtErrors, KeepTheirClassWhereTheyAreThrownAgain) {
  std::exception_ptr kept;
  try {
    static_cast<void>(parse_dtype("quadruple"));
  } catch (const Error&) {
    kept = std::current_exception();
  }
  EXPECT_THROW(std::rethrow_exception(kept), InvalidArgument);
}

TEST(CaughtErrors, MayBeAProgramsOwn) {
  EXPECT_THROW(throw TimedOut("the solver did not answer"), TimedOut);
  EXPECT_STREQ(TimedOut("the solver did not answer").what(), "the solver did not answer [ML008]");
}

}  // namespace
}  // namespace memlease
