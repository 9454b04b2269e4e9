// Frames of the attach channel: what client and daemon say to each other over attach.sock.
//
//   client  HELLO        PROOF          FETCH              OPEN                EXIT  BYE
//   daemon        CHALLENGE   WELCOME        FILE + fds          OPENED + fds
//
// Each frame is one SEQPACKET message: a header of kFrameHeaderBytes, then its payload, all
// little-endian; a text is its length (16 bits) and its bytes. ERROR answers whatever went wrong: a
// FETCH or OPEN with its request id, otherwise with 0, and then the daemon closes the connection.
//
// Reading is strict: a frame has exactly one encoding, and everything else is an error. (Except
// that an unknown code of ERROR is read as kInternal.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/error.h"
#include "wire/ids.h"
#include "wire/protocol.h"

namespace memlease::wire {

// The header and the payloads of HELLO and ERROR are the same in every version of the protocol, so
// that both sides can always tell each other what is wrong.
inline constexpr std::uint32_t kFrameMagic = 0x31414c4d;  // "MLA1"
inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kMaxFrameBytes = 4096;
inline constexpr std::size_t kMaxVersionTextBytes = 64;  // printable ASCII, since it is logged
inline constexpr std::size_t kMaxErrorTextBytes = 1920;  // two of them fit into one frame
inline constexpr std::size_t kMaxCallBytes = 3840;       // fits beside a frame's most files
inline constexpr std::size_t kMaxCreateBytes = 1920;  // of Create's request: its answer is longer

using Nonce = std::array<std::uint8_t, 16>;
using Token = std::array<std::uint8_t, 32>;
using Incarnation = std::array<std::uint8_t, 16>;

// The numbers stand on the wire. See Payload for what belongs to each.
enum class FrameType : std::uint16_t {
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  kFetch = 5,
  kFile = 6,
  kBye = 7,
  kError = 8,
  kExit = 9,
  kOpen = 10,
  kOpened = 11,
};

struct HelloFrame {
  std::uint16_t min_protocol = wire::min_protocol();
  std::uint16_t max_protocol = wire::max_protocol();
  std::string library_version;
  friend bool operator==(const HelloFrame&, const HelloFrame&) = default;
};
struct ChallengeFrame {
  Nonce nonce{};
  friend bool operator==(const ChallengeFrame&, const ChallengeFrame&) = default;
};
// Who sends it is stamped by the kernel (SCM_CREDENTIALS), not written here.
struct ProofFrame {
  Nonce nonce{};
  friend bool operator==(const ProofFrame&, const ProofFrame&) = default;
};
struct WelcomeFrame {
  SessionId session{1};
  Token token{};
  Incarnation incarnation{};
  std::uint16_t protocol = max_protocol();  // the one that both speak from here on
  std::uint32_t daemon_pid = 0;
  std::uint64_t page_layouts = wire::page_layouts();  // which the client compares with its own
  std::string daemon_version;
  friend bool operator==(const WelcomeFrame&, const WelcomeFrame&) = default;
};
// 1 to kMaxFetchedFiles. The first one is what is asked for: without it the answer is ERROR. The
// others come along where they can be had. A segment is writable where that is asked for, and may
// be had; with other files it says nothing.
struct FetchFrame {
  struct File {
    FileId file{1};
    bool writable = false;
    friend bool operator==(const File&, const File&) = default;
  };
  std::vector<File> files = std::vector<File>(1);
  friend bool operator==(const FetchFrame&, const FetchFrame&) = default;
};
// Those of a FETCH that are given, in its order; each with a descriptor, in the same order.
struct FileFrame {
  struct File {
    FileId file{1};
    FileKind kind = FileKind::kSegment;
    std::uint64_t size_bytes = 0;
    bool writable = false;
    friend bool operator==(const File&, const File&) = default;
  };
  std::vector<File> files = std::vector<File>(1);
  friend bool operator==(const FileFrame&, const FileFrame&) = default;
};
struct ByeFrame {
  friend bool operator==(const ByeFrame&, const ByeFrame&) = default;
};
struct ErrorFrame {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint;
  friend bool operator==(const ErrorFrame&, const ErrorFrame&) = default;
};

// The process is about to exit by itself: nobody has killed it. Until it has, it may use all that
// it has, and ask for more.
struct ExitFrame {
  friend bool operator==(const ExitFrame&, const ExitFrame&) = default;
};

// A call of Control that opens an array, made here, so that the files come with its answer. Both
// texts are its serialized messages, of kMaxCallBytes at most.
struct OpenFrame {
  OpeningCall call = OpeningCall::kOpen;
  std::string request;
  friend bool operator==(const OpenFrame&, const OpenFrame&) = default;
};
// With up to kMaxFetchedFiles, as FILE has them: those that it takes to read the array and that the
// session has not been told of before. An empty answer: nothing has been done, as it takes long, or
// the answer is; the call itself is to be made.
struct OpenedFrame {
  std::string answer;
  std::vector<FileFrame::File> files;
  friend bool operator==(const OpenedFrame&, const OpenedFrame&) = default;
};

// In the order of FrameType.
using Payload = std::variant<HelloFrame, ChallengeFrame, ProofFrame, WelcomeFrame, FetchFrame,
                             FileFrame, ByeFrame, ErrorFrame, ExitFrame, OpenFrame, OpenedFrame>;

struct Frame {
  std::uint32_t request_id = 0;  // chosen by the client for FETCH and OPEN, repeated in the answer
  Payload payload;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// "FETCH".
std::string_view name_of(FrameType type);
FrameType type_of(const Frame& frame);

// Texts that are too long are cut. `protocol` is the version that the frame is written in.
std::vector<std::byte> encode_frame(const Frame& frame, std::uint16_t protocol = max_protocol());
// `protocol` is the version agreed on. kVersionSkew for a frame of another version (HELLO and ERROR
// excepted), kInvalidArgument for anything else that is not exactly one frame.
absl::StatusOr<Frame> parse_frame(std::span<const std::byte> bytes,
                                  std::uint16_t protocol = max_protocol());

// For the client: the version that the daemon's frame is written in, as the daemon has chosen it;
// our highest one if it is none of ours, for parse_frame() to refuse.
std::uint16_t protocol_of(std::span<const std::byte> bytes);

// For the daemon: the highest version that both sides speak. kVersionSkew if there is none; its
// message is for the client, and says which side is the older one.
absl::StatusOr<std::uint16_t> choose_protocol(const HelloFrame& hello);

ErrorFrame to_error_frame(const absl::Status& status);
absl::Status to_status(const ErrorFrame& frame);

}  // namespace memlease::wire
