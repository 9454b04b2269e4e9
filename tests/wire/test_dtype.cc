#include <string>

#include "gtest/gtest.h"
#include "wire/dtype.h"

namespace memlease::wire {
namespace {

TEST(DTypeText, IsReadInEachSpelling) {
  const DType float64{DTypeCode::kFloat, 64, 1};
  for (const char* text : {"float64", "<f8", "f8", "=f8", "|f8"}) {
    EXPECT_EQ(parse_dtype(text), float64) << text;
  }
  const DType boolean{DTypeCode::kBool, 8, 1};
  for (const char* text : {"bool", "|b1", "b1", "=b1"})
    EXPECT_EQ(parse_dtype(text), boolean) << text;
  EXPECT_EQ(parse_dtype("bf16"), (DType{DTypeCode::kBFloat, 16, 1}));
  EXPECT_EQ(parse_dtype("c16"), (DType{DTypeCode::kComplex, 128, 1}));
  for (const char* text : {"", "=", "|", "f", "f3", ">f8", "<bool", "float", "Float64", "f8 "}) {
    EXPECT_EQ(parse_dtype(text), std::nullopt) << text;
  }
}

TEST(DTypeText, IsReadAsItWasWritten) {
  int count = 0;
  for (int code = 0; code <= 20; ++code) {
    for (const int bits : {8, 16, 32, 64, 128}) {
      const DType dtype{static_cast<DTypeCode>(code), static_cast<std::uint8_t>(bits), 1};
      if (!is_known(dtype)) {
        EXPECT_EQ(name_of(dtype), "unknown");
        continue;
      }
      ++count;
      EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
      if (!typestr_of(dtype).empty()) {
        EXPECT_EQ(parse_dtype(typestr_of(dtype)), dtype);
      }
      EXPECT_NE(known_dtype_names().find(name_of(dtype)), std::string::npos);
    }
  }
  EXPECT_EQ(count, 23);
}

}  // namespace
}  // namespace memlease::wire
