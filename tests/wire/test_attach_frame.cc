#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "wire/attach_frame.h"
#include "wire/error.h"

namespace memlease::wire {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

std::vector<Frame> one_of_each() {
  WelcomeFrame welcome;
  welcome.session = SessionId{5};
  welcome.token.fill(1);
  welcome.incarnation.fill(2);
  welcome.daemon_pid = 77;
  welcome.page_layouts = 99;
  welcome.daemon_version = "1.2.3";
  return {
      {0, HelloFrame{1, 1, "0.1.0"}},
      {0, ChallengeFrame{{1, 2, 3}}},
      {0, ProofFrame{{1, 2, 3}}},
      {0, welcome},
      {9, FetchFrame{{{FileId{kMaxFileId}, true}}}},
      {9, FileFrame{{{FileId{1}, FileKind::kSessionPage, std::uint64_t{1} << 40, true}}}},
      {0, ByeFrame{}},
      {9, ErrorFrame{ErrorCode::kNotFound, "no such file", "Ask for another."}},
      {0, ExitFrame{}},
      {9, OpenFrame{OpeningCall::kCreate, "a request"}},
      {9, OpenedFrame{"an answer", {}}},
  };
}

// The layout, byte by byte: it is what other releases rely on.
TEST(AttachFrame, StandsOnTheWireAsDocumented) {
  const auto bytes = encode_frame({0x01020304, FetchFrame{{{FileId{0xabc}, true}}}});
  const unsigned char expected[] = {'M', 'L', 'A', '1', 1, 0,    5,    0, 5, 0, 0,
                                    0,   4,   3,   2,   1, 0xbc, 0x0a, 0, 0, 1};
  ASSERT_EQ(bytes.size(), sizeof(expected));
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(expected))));
  std::vector<std::size_t> sizes;
  for (const Frame& frame : one_of_each()) sizes.push_back(encode_frame(frame).size() - 16);
  EXPECT_THAT(sizes,
              ::testing::ElementsAre(4 + 2 + 5, 16, 16, 4 + 32 + 16 + 2 + 4 + 8 + 2 + 5, 5,
                                     4 + 4 + 8 + 1, 0, 4 + 2 + 12 + 2 + 16, 0, 1 + 2 + 9, 2 + 9));
}

TEST(AttachFrame, ReadsEachTypeAsItWasWritten) {
  for (const Frame& frame : one_of_each()) {
    const auto parsed = parse_frame(encode_frame(frame));
    ASSERT_TRUE(parsed.ok()) << name_of(type_of(frame)) << ": " << parsed.status();
    EXPECT_EQ(*parsed, frame) << name_of(type_of(frame));
  }
}

// As many as there are bytes for, so that one file stands there as ever.
TEST(AttachFrame, AsksForAndGivesUpToEightFiles) {
  FetchFrame fetch{{}};
  FileFrame given{{}};
  for (std::uint32_t file = 1; file <= kMaxFetchedFiles; ++file) {
    fetch.files.push_back({FileId{file}, file % 2 == 0});
    given.files.push_back({FileId{file}, FileKind::kBoard, file * 4096, file % 2 == 0});
    const Frame frames[] = {{9, fetch}, {9, given}};
    for (const Frame& frame : frames) {
      const auto parsed = parse_frame(encode_frame(frame));
      ASSERT_TRUE(parsed.ok()) << name_of(type_of(frame)) << ": " << parsed.status();
      EXPECT_EQ(*parsed, frame);
    }
    EXPECT_EQ(encode_frame(frames[0]).size(), 16 + 5 * file);
    EXPECT_EQ(encode_frame(frames[1]).size(), 16 + 17 * file);
  }
  fetch.files.push_back({FileId{9}});
  given.files.push_back({FileId{9}});
  EXPECT_THAT(message_of(parse_frame(encode_frame({9, fetch})).status()), HasSubstr("FETCH of 61"));
  EXPECT_THAT(message_of(parse_frame(encode_frame({9, given})).status()), HasSubstr("FILE of 169"));
}

// The longest answer has room for as many files as come with it.
TEST(AttachFrame, CarriesTheMessagesOfACallWhole) {
  std::string message(kMaxCallBytes, '\0');
  message.back() = '\xff';  // not UTF-8, and not cut for that
  const FileFrame::File file{FileId{1}, FileKind::kBoard, 4096, false};
  for (const std::size_t files : {std::size_t{0}, kMaxFetchedFiles}) {
    const OpenedFrame opened{message, std::vector<FileFrame::File>(files, file)};
    const Frame frames[] = {
        {9, OpenFrame{OpeningCall::kOpen, message}}, {9, opened}, {9, OpenedFrame{}}};
    for (const Frame& frame : frames) {
      const auto parsed = parse_frame(encode_frame(frame));
      ASSERT_TRUE(parsed.ok()) << name_of(type_of(frame)) << ": " << parsed.status();
      EXPECT_EQ(*parsed, frame);
    }
  }
  const std::vector<FileFrame::File> many(kMaxFetchedFiles + 1, file);
  EXPECT_FALSE(parse_frame(encode_frame({9, OpenedFrame{"", many}})).ok());
}

TEST(AttachFrame, RefusesEachTypeTruncatedOrExtendedAnywhere) {
  for (const Frame& frame : one_of_each()) {
    const Bytes whole = encode_frame(frame);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(code_of(parse_frame(part).status()), ErrorCode::kInvalidArgument);
      if (size < kFrameHeaderBytes) continue;
      part[8] = static_cast<std::byte>(size - kFrameHeaderBytes);  // a header that agrees
      EXPECT_EQ(code_of(parse_frame(part).status()), ErrorCode::kInvalidArgument);
    }
    Bytes longer = whole;
    longer.push_back({});
    EXPECT_THAT(message_of(parse_frame(longer).status()), HasSubstr("announces"));
    longer[8] = static_cast<std::byte>(longer.size() - kFrameHeaderBytes);
    EXPECT_THAT(message_of(parse_frame(longer).status()), HasSubstr("wrong length"));
  }
}

struct BadFrame {
  std::string name;
  Frame frame;                        // a good one
  std::function<void(Bytes&)> spoil;  // until here
  std::string message;
  ErrorCode code = ErrorCode::kInvalidArgument;
};
void PrintTo(const BadFrame& bad, std::ostream* out) { *out << bad.name; }

std::function<void(Bytes&)> set(std::size_t at, unsigned value) {
  return [=](Bytes& bytes) { bytes.at(at) = static_cast<std::byte>(value); };
}

// With a header that agrees.
std::function<void(Bytes&)> shorten_to(std::size_t size) {
  return [=](Bytes& bytes) {
    bytes.resize(size);
    bytes[8] = static_cast<std::byte>(size - kFrameHeaderBytes);
  };
}

class BadFrames : public ::testing::TestWithParam<BadFrame> {};

TEST_P(BadFrames, AreRefusedWithAReason) {
  const BadFrame& bad = GetParam();
  Bytes bytes = encode_frame(bad.frame);
  ASSERT_TRUE(parse_frame(bytes).ok());
  bad.spoil(bytes);
  const auto status = parse_frame(bytes).status();
  EXPECT_EQ(code_of(status), bad.code);
  EXPECT_THAT(message_of(status), HasSubstr(bad.message));
  EXPECT_NE(hint_of(status), "");
}

const Frame kHello{0, HelloFrame{1, 1, "0.1.0"}};
const Frame kWelcome{0, WelcomeFrame{}};
const Frame kFetch{0, FetchFrame{}};
const Frame kFile{0, FileFrame{}};
const Frame kFetchTwo{0, FetchFrame{std::vector<FetchFrame::File>(2)}};
const Frame kOpen{0, OpenFrame{}};
const Frame kFileTwo{0, FileFrame{std::vector<FileFrame::File>(2)}};

INSTANTIATE_TEST_SUITE_P(
    , BadFrames,
    ::testing::Values(
        BadFrame{"Magic", kFetch, set(0, 'X'), "it begins with"},
        BadFrame{"Version0", kFetch, set(4, 0), "version 0 of the attach protocol, this side 1",
                 ErrorCode::kVersionSkew},
        BadFrame{"Version2", kFetch, set(4, 2), "version 2 of the attach protocol, this side 1",
                 ErrorCode::kVersionSkew},
        BadFrame{"Type0", kFetch, set(6, 0), "type 0 is unknown"},
        BadFrame{"Type12", kFetch, set(6, 12), "type 12 is unknown"},
        BadFrame{"Type256", kFetch, set(7, 1), "type 261 is unknown"},
        BadFrame{"OtherType", kFetch, set(6, 2), "wrong length"},
        BadFrame{"HugePayload", kFetch, set(11, 0xff), "announces 4278190085 bytes"},
        BadFrame{"HelloFromVersion0", kHello, set(16, 0), "HELLO has a field out of range"},
        BadFrame{"HelloRangeEmpty", kHello, set(16, 2), "HELLO has a field out of range"},
        BadFrame{"HelloControlCharacter", kHello, set(22, '\n'), "HELLO has a field out of range"},
        BadFrame{"HelloNotAscii", kHello, set(22, 0xc3), "HELLO has a field out of range"},
        BadFrame{"HelloTextTooLong", kHello,
                 [](Bytes& bytes) {
                   bytes.resize(16 + 6 + 65, std::byte{'1'});
                   bytes[8] = std::byte{6 + 65};
                   bytes[20] = std::byte{65};
                 },
                 "a text in it is too long"},
        BadFrame{"WelcomeSession0", kWelcome, set(16, 0), "WELCOME has a field out of range"},
        BadFrame{"FetchFile0", kFetch, set(16, 0), "FETCH has a field out of range"},
        BadFrame{"FetchFileTooHigh", kFetch, set(19, 0x10), "FETCH has a field out of range"},
        BadFrame{"FetchSecondFile0", kFetchTwo, set(21, 0), "FETCH has a field out of range"},
        BadFrame{"FetchWritable2", kFetch, set(20, 2), "FETCH has a field out of range"},
        BadFrame{"FetchHalfAFile", kFetchTwo, shorten_to(16 + 7), "wrong length"},
        BadFrame{"FetchNone", kFetch, shorten_to(16), "wrong length"},
        BadFrame{"FileSecondKind5", kFileTwo, set(16 + 17 + 4, 5), "FILE has a field out of range"},
        BadFrame{"FileHalfAFile", kFileTwo, shorten_to(16 + 17 + 9), "wrong length"},
        BadFrame{"FileNone", kFile, shorten_to(16), "wrong length"},
        BadFrame{"FileKind0", kFile, set(20, 0), "FILE has a field out of range"},
        BadFrame{"FileKind5", kFile, set(20, 5), "FILE has a field out of range"},
        BadFrame{"FileKindHigh", kFile, set(23, 1), "FILE has a field out of range"},
        BadFrame{"FileWritable2", kFile, set(32, 2), "FILE has a field out of range"},
        BadFrame{"OpenCall0", kOpen, set(16, 0), "OPEN has a field out of range"},
        BadFrame{"OpenCall3", kOpen, set(16, 3), "OPEN has a field out of range"},
        BadFrame{"Oversized", kFetch, [](Bytes& bytes) { bytes.resize(kMaxFrameBytes + 1); },
                 "4097 bytes are more than 4096"}),
    [](const auto& bad) { return bad.param.name; });

TEST(AttachFrame, ReadsHelloAndErrorOfAnyVersion) {
  for (const std::uint16_t version : {std::uint16_t{2}, std::uint16_t{65535}}) {
    EXPECT_TRUE(parse_frame(encode_frame(kHello, version)).ok());
    EXPECT_TRUE(parse_frame(encode_frame({0, ErrorFrame{}}, version)).ok());
    EXPECT_TRUE(parse_frame(encode_frame(kFetch, version), version).ok());
    EXPECT_EQ(code_of(parse_frame(encode_frame(kFetch), version).status()),
              ErrorCode::kVersionSkew);
  }
}

TEST(AttachFrame, ChoosesTheHighestCommonVersion) {
  EXPECT_EQ(*choose_protocol({1, 1, ""}), 1);
  EXPECT_EQ(*choose_protocol({1, 9, ""}), kMaxProtocol);
}

TEST(AttachFrame, SaysWhichSideIsTheOlderOneWhereNoVersionIsCommon) {
  const auto newer = choose_protocol({2, 9, "7.1"}).status();
  EXPECT_EQ(code_of(newer), ErrorCode::kVersionSkew);
  EXPECT_EQ(message_of(newer),
            "the client's memlease library, 7.1, speaks version 2 to 9 of the protocol, the older "
            "daemon version 1");
  EXPECT_THAT(hint_of(newer), HasSubstr("Restart memleased"));
  const auto older = choose_protocol({0, 0, "0.0.1"}).status();
  EXPECT_EQ(code_of(older), ErrorCode::kVersionSkew);
  EXPECT_THAT(message_of(older), HasSubstr("version 0 of the protocol, the newer daemon"));
  EXPECT_THAT(hint_of(older), HasSubstr("the memlease library of this program"));
}

TEST(AttachFrame, CutsLongErrorsBetweenCharacters) {
  std::string message(kMaxErrorTextBytes - 1, 'x');
  const auto bytes = encode_frame({0, ErrorFrame{ErrorCode::kInternal, message + "€", message}});
  ASSERT_LE(bytes.size(), kMaxFrameBytes);
  const auto frame = parse_frame(bytes);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(std::get<ErrorFrame>(frame->payload).message, message);
  EXPECT_EQ(std::get<ErrorFrame>(frame->payload).hint, message);
}

TEST(AttachFrame, KeepsTheMessageOfAnErrorOfAnUnknownCode) {
  auto bytes = encode_frame({0, ErrorFrame{ErrorCode::kDenied, "why", "what to do"}});
  for (const unsigned high : {0U, 0xffU}) {
    bytes[16] = std::byte{200};
    bytes[19] = static_cast<std::byte>(high);
    const auto frame = parse_frame(bytes);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(std::get<ErrorFrame>(frame->payload),
              (ErrorFrame{ErrorCode::kInternal, "why", "what to do"}));
  }
}

TEST(AttachFrame, CarriesAStatusWithItsHint) {
  const auto status = make_error(ErrorCode::kQuotaExceeded, "too many", "End one.");
  const auto back = to_status(to_error_frame(status));
  EXPECT_EQ(code_of(back), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(message_of(back), "too many");
  EXPECT_EQ(hint_of(back), "End one.");
}

// ---- Properties.

std::string any_text(std::size_t max_bytes) {
  auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~'));
  text.resize(std::min(text.size(), max_bytes));
  return text;
}

template <std::size_t N>
std::array<std::uint8_t, N> any_bytes() {
  return *rc::gen::container<std::array<std::uint8_t, N>>(rc::gen::arbitrary<std::uint8_t>());
}

Payload any_payload() {
  const auto file = FileId{*rc::gen::inRange<std::uint32_t>(1, kMaxFileId + 1)};
  const auto number = *rc::gen::arbitrary<std::uint64_t>();
  switch (*rc::gen::inRange(1, 12)) {
    case 1: {
      const auto low = *rc::gen::inRange<std::uint16_t>(1, 65535);
      const auto high = *rc::gen::inRange<std::uint16_t>(low, 65535);
      return HelloFrame{low, high, any_text(kMaxVersionTextBytes)};
    }
    case 2:
      return ChallengeFrame{any_bytes<16>()};
    case 3:
      return ProofFrame{any_bytes<16>()};
    case 4:
      return WelcomeFrame{SessionId{static_cast<std::uint32_t>(number | 1)},
                          any_bytes<32>(),
                          any_bytes<16>(),
                          static_cast<std::uint16_t>(number >> 32),
                          static_cast<std::uint32_t>(number >> 16),
                          number,
                          any_text(kMaxVersionTextBytes)};
    case 5:
      return FetchFrame{
          std::vector<FetchFrame::File>(1 + number % kMaxFetchedFiles, {file, number % 2 == 0})};
    case 6: {
      const FileFrame::File given{file, FileKind{*rc::gen::inRange<std::uint32_t>(1, 4)}, number,
                                  number % 2 == 0};
      return FileFrame{std::vector<FileFrame::File>(1 + number % kMaxFetchedFiles, given)};
    }
    case 9:
      return OpenFrame{OpeningCall{*rc::gen::inRange<std::uint8_t>(1, 3)}, any_text(kMaxCallBytes)};
    case 10: {
      const FileFrame::File given{file, FileKind::kBoard, number, number % 2 == 0};
      return OpenedFrame{any_text(kMaxCallBytes),
                         std::vector<FileFrame::File>(number % (1 + kMaxFetchedFiles), given)};
    }
    case 7:
      return ByeFrame{};
    case 8:
      return ExitFrame{};
    default:
      return ErrorFrame{ErrorCode{*rc::gen::inRange(1, 22)}, any_text(kMaxErrorTextBytes),
                        any_text(kMaxErrorTextBytes)};
  }
}

RC_GTEST_PROP(AttachFrameProperty, WhatIsWrittenIsReadBack, ()) {
  const Frame frame{*rc::gen::arbitrary<std::uint32_t>(), any_payload()};
  const auto bytes = encode_frame(frame);
  RC_ASSERT(bytes.size() <= kMaxFrameBytes);
  const auto parsed = parse_frame(bytes);
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == frame);
}

// A frame has one encoding: whatever is accepted would be written in the same way.
RC_GTEST_PROP(AttachFrameProperty, DamagedFramesAreRefusedOrAreOtherFrames, ()) {
  auto bytes = encode_frame({*rc::gen::arbitrary<std::uint32_t>(), any_payload()});
  const int changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  }
  bytes.resize(*rc::gen::element(bytes.size(), bytes.size() - 1, bytes.size() + 1));
  const auto parsed = parse_frame(bytes);
  if (!parsed.ok()) {
    RC_ASSERT(code_of(parsed.status()) == ErrorCode::kInvalidArgument ||
              code_of(parsed.status()) == ErrorCode::kVersionSkew);
    RC_ASSERT(!hint_of(parsed.status()).empty());
    return;
  }
  const bool is_error = type_of(*parsed) == FrameType::kError;  // of an unknown code, perhaps
  const auto version = static_cast<std::uint16_t>(std::to_integer<int>(bytes[4]) |
                                                  std::to_integer<int>(bytes[5]) << 8);
  RC_ASSERT(is_error || encode_frame(*parsed, version) == bytes);
}

}  // namespace
}  // namespace memlease::wire
