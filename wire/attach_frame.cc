#include "wire/attach_frame.h"

#include <algorithm>
#include <cassert>
#include <concepts>
#include <optional>
#include <utility>

#include "fmt/format.h"

namespace memlease::wire {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Payload>> kNames = {
    "HELLO", "CHALLENGE", "PROOF", "WELCOME", "FETCH", "FILE",
    "BYE",   "ERROR",     "EXIT",  "OPEN",    "OPENED"};

absl::Status malformed(std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("malformed attach frame: {}", what),
                    "Only memlease's own client library speaks to attach.sock; both sides must be "
                    "unmodified releases of it.");
}

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>* out) : out_(*out) {}

  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::byte>((std::uint64_t{value} >> (8 * i)) & 0xff));
    }
  }
  template <std::size_t N>
  void bytes(const std::array<std::uint8_t, N>& value) {
    for (const std::uint8_t byte : value) out_.push_back(std::byte{byte});
  }
  void text(std::string_view value, std::size_t max_bytes) {
    if (value.size() > max_bytes) {
      // Not in the middle of a character of UTF-8.
      while (max_bytes > 0 && (value[max_bytes] & 0xc0) == 0x80) --max_bytes;
      value = value.substr(0, max_bytes);
    }
    number(static_cast<std::uint16_t>(value.size()));
    for (const char c : value) out_.push_back(static_cast<std::byte>(c));
  }
  // Of a call: never cut.
  void message(std::string_view value) {
    assert(value.size() <= kMaxCallBytes);
    number(static_cast<std::uint16_t>(value.size()));
    for (const char c : value) out_.push_back(static_cast<std::byte>(c));
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads beyond the end, and texts that are too long, yield zeros and are remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  template <std::unsigned_integral T>
  T number() {
    std::uint64_t value = 0;
    const auto raw = take(sizeof(T));
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= std::to_integer<std::uint64_t>(raw[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  template <std::size_t N>
  std::array<std::uint8_t, N> bytes() {
    std::array<std::uint8_t, N> value{};
    std::ranges::transform(take(N), value.begin(), std::to_integer<std::uint8_t>);
    return value;
  }
  std::string text(std::size_t max_bytes) {
    const std::size_t size = number<std::uint16_t>();
    if (size > max_bytes) failed_ = true;
    const auto raw = take(size);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  bool empty() const { return in_.empty(); }
  // True if every read was within bounds and nothing is left.
  bool finished() const { return !failed_ && empty(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (failed_ || size > in_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }

  std::span<const std::byte> in_;
  bool failed_ = false;
};

struct PayloadWriter {
  ByteWriter out;

  void operator()(const HelloFrame& f) {
    out.number(f.min_protocol);
    out.number(f.max_protocol);
    out.text(f.library_version, kMaxVersionTextBytes);
  }
  void operator()(const ChallengeFrame& f) { out.bytes(f.nonce); }
  void operator()(const ProofFrame& f) { out.bytes(f.nonce); }
  void operator()(const WelcomeFrame& f) {
    out.number(to_int(f.session));
    out.bytes(f.token);
    out.bytes(f.incarnation);
    out.number(f.protocol);
    out.number(f.daemon_pid);
    out.number(f.page_layouts);
    out.text(f.daemon_version, kMaxVersionTextBytes);
  }
  void operator()(const FetchFrame& f) {
    for (const FetchFrame::File& file : f.files) {
      out.number(to_int(file.file));
      out.number(std::uint8_t{file.writable});
    }
  }
  void operator()(const FileFrame& f) {
    for (const FileFrame::File& file : f.files) {
      out.number(to_int(file.file));
      out.number(static_cast<std::uint32_t>(file.kind));
      out.number(file.size_bytes);
      out.number(std::uint8_t{file.writable});
    }
  }
  void operator()(const ByeFrame&) {}
  void operator()(const ErrorFrame& f) {
    out.number(static_cast<std::uint32_t>(f.code));
    out.text(f.message, kMaxErrorTextBytes);
    out.text(f.hint, kMaxErrorTextBytes);
  }
  void operator()(const ExitFrame&) {}
  void operator()(const OpenFrame& f) {
    out.number(static_cast<std::uint8_t>(f.call));
    out.message(f.request);
  }
  void operator()(const OpenedFrame& f) {
    out.message(f.answer);
    (*this)(FileFrame{f.files});
  }
};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::optional<Payload> read_hello(Reader& in) {
  HelloFrame f;
  f.min_protocol = in.number<std::uint16_t>();
  f.max_protocol = in.number<std::uint16_t>();
  f.library_version = in.text(kMaxVersionTextBytes);
  if (f.min_protocol == 0 || f.min_protocol > f.max_protocol) return std::nullopt;
  if (!is_printable(f.library_version)) return std::nullopt;
  return f;
}

std::optional<Payload> read_welcome(Reader& in) {
  WelcomeFrame f;
  f.session = SessionId{in.number<std::uint32_t>()};
  f.token = in.bytes<std::tuple_size_v<Token>>();
  f.incarnation = in.bytes<std::tuple_size_v<Incarnation>>();
  f.protocol = in.number<std::uint16_t>();
  f.daemon_pid = in.number<std::uint32_t>();
  f.page_layouts = in.number<std::uint64_t>();
  f.daemon_version = in.text(kMaxVersionTextBytes);
  if (f.session == SessionId{0} || !is_printable(f.daemon_version)) return std::nullopt;
  return f;
}

std::optional<FileId> read_file_id(Reader& in) {
  const auto id = in.number<std::uint32_t>();
  if (id == 0 || id > kMaxFileId) return std::nullopt;
  return FileId{id};
}

// What the frame has several of: as many as there are bytes for.
template <typename F, typename Read>
std::optional<Payload> read_files(Reader& in, Read read, F f = {}) {
  f.files.clear();
  do {
    auto file = read(in);
    if (!file) return std::nullopt;
    f.files.push_back(*file);
  } while (!in.empty() && f.files.size() < kMaxFetchedFiles);
  return f;
}

std::optional<FetchFrame::File> read_wanted(Reader& in) {
  const auto id = read_file_id(in);
  const auto writable = in.number<std::uint8_t>();
  if (!id || writable > 1) return std::nullopt;
  return FetchFrame::File{*id, writable == 1};
}

std::optional<FileFrame::File> read_file(Reader& in) {
  const auto id = read_file_id(in);
  const auto kind = in.number<std::uint32_t>();
  const auto size_bytes = in.number<std::uint64_t>();
  const auto writable = in.number<std::uint8_t>();
  if (!id || kind < 1 || kind > static_cast<std::uint32_t>(FileKind::kEvents) || writable > 1) {
    return std::nullopt;
  }
  return FileFrame::File{*id, static_cast<FileKind>(kind), size_bytes, writable == 1};
}

std::optional<Payload> read_open(Reader& in) {
  const auto call = static_cast<OpeningCall>(in.number<std::uint8_t>());
  OpenFrame f{call, in.text(kMaxCallBytes)};
  if (call != OpeningCall::kOpen && call != OpeningCall::kCreate) return std::nullopt;
  return f;
}

std::optional<Payload> read_opened(Reader& in) {
  OpenedFrame f{in.text(kMaxCallBytes), {}};
  if (in.empty()) return f;
  return read_files<OpenedFrame>(in, read_file, std::move(f));
}

std::optional<Payload> read_error(Reader& in) {
  const auto code = in.number<std::uint32_t>();
  ErrorFrame f;
  // A code that a later release added must not hide its message.
  if (std::in_range<int>(code) && is_error_code(static_cast<int>(code))) {
    f.code = static_cast<ErrorCode>(code);
  }
  f.message = in.text(kMaxErrorTextBytes);
  f.hint = in.text(kMaxErrorTextBytes);
  return f;
}

// Nothing if a field has a value that it must not have.
std::optional<Payload> read_payload(FrameType type, Reader& in) {
  switch (type) {
    case FrameType::kHello:
      return read_hello(in);
    case FrameType::kChallenge:
      return ChallengeFrame{in.bytes<std::tuple_size_v<Nonce>>()};
    case FrameType::kProof:
      return ProofFrame{in.bytes<std::tuple_size_v<Nonce>>()};
    case FrameType::kWelcome:
      return read_welcome(in);
    case FrameType::kFetch:
      return read_files<FetchFrame>(in, read_wanted);
    case FrameType::kFile:
      return read_files<FileFrame>(in, read_file);
    case FrameType::kBye:
      return ByeFrame{};
    case FrameType::kError:
      return read_error(in);
    case FrameType::kExit:
      return ExitFrame{};
    case FrameType::kOpen:
      return read_open(in);
    case FrameType::kOpened:
      return read_opened(in);
  }
  return std::nullopt;
}

absl::Status skewed(std::string_view theirs, std::string_view ours) {
  return make_error(ErrorCode::kVersionSkew,
                    fmt::format("the other side speaks version {} of the attach protocol, this "
                                "side {}",
                                theirs, ours),
                    "Bring the memlease library and memleased to the same release, and restart "
                    "the older one.");
}

std::string describe_range(std::uint16_t low, std::uint16_t high) {
  return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
}

}  // namespace

std::string_view name_of(FrameType type) { return kNames.at(static_cast<std::size_t>(type) - 1); }

FrameType type_of(const Frame& frame) { return static_cast<FrameType>(frame.payload.index() + 1); }

std::vector<std::byte> encode_frame(const Frame& frame, std::uint16_t protocol) {
  std::vector<std::byte> payload;
  std::visit(PayloadWriter{ByteWriter(&payload)}, frame.payload);
  std::vector<std::byte> bytes;
  bytes.reserve(kFrameHeaderBytes + payload.size());
  ByteWriter header(&bytes);
  header.number(kFrameMagic);
  header.number(protocol);
  header.number(static_cast<std::uint16_t>(type_of(frame)));
  header.number(static_cast<std::uint32_t>(payload.size()));
  header.number(frame.request_id);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

absl::StatusOr<Frame> parse_frame(std::span<const std::byte> bytes, std::uint16_t protocol) {
  if (bytes.size() < kFrameHeaderBytes) {
    return malformed(
        fmt::format("{} bytes are less than a header of {}", bytes.size(), kFrameHeaderBytes));
  }
  if (bytes.size() > kMaxFrameBytes) {
    return malformed(fmt::format("{} bytes are more than {}", bytes.size(), kMaxFrameBytes));
  }
  Reader header(bytes.first(kFrameHeaderBytes));
  const auto magic = header.number<std::uint32_t>();
  const auto its_protocol = header.number<std::uint16_t>();
  const auto its_type = header.number<std::uint16_t>();
  const auto payload_bytes = header.number<std::uint32_t>();
  const auto request_id = header.number<std::uint32_t>();
  if (magic != kFrameMagic) {
    return malformed(
        fmt::format("it begins with {:#010x}, not with {:#010x} (\"MLA1\")", magic, kFrameMagic));
  }
  const auto type = static_cast<FrameType>(its_type);
  const bool same_in_all_versions = type == FrameType::kHello || type == FrameType::kError;
  if (its_protocol != protocol && !same_in_all_versions) {
    return skewed(fmt::format("{}", its_protocol), fmt::format("{}", protocol));
  }
  if (its_type < 1 || its_type > kNames.size()) {
    return malformed(fmt::format("type {} is unknown", its_type));
  }
  Reader payload(bytes.subspan(kFrameHeaderBytes));
  if (payload_bytes != bytes.size() - kFrameHeaderBytes) {
    return malformed(fmt::format("{} announces {} bytes of payload and has {}", name_of(type),
                                 payload_bytes, bytes.size() - kFrameHeaderBytes));
  }
  auto content = read_payload(type, payload);
  if (!payload.finished()) {
    return malformed(fmt::format("{} of {} bytes has the wrong length, or a text in it is too long",
                                 name_of(type), bytes.size()));
  }
  if (!content) return malformed(fmt::format("{} has a field out of range", name_of(type)));
  return Frame{request_id, *std::move(content)};
}

std::uint16_t protocol_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes) return max_protocol();
  Reader header(bytes.first(kFrameHeaderBytes));
  header.number<std::uint32_t>();
  const auto protocol = header.number<std::uint16_t>();
  return protocol >= min_protocol() && protocol <= max_protocol() ? protocol : max_protocol();
}

absl::StatusOr<std::uint16_t> choose_protocol(const HelloFrame& hello) {
  const bool newer = hello.min_protocol > max_protocol();
  if (!newer && hello.max_protocol >= min_protocol()) {
    return std::min(hello.max_protocol, max_protocol());
  }
  return make_error(
      ErrorCode::kVersionSkew,
      fmt::format("the client's memlease library, {}, speaks version {} of the protocol, the "
                  "{} daemon version {}",
                  hello.library_version, describe_range(hello.min_protocol, hello.max_protocol),
                  newer ? "older" : "newer", describe_range(min_protocol(), max_protocol())),
      newer ? "Restart memleased from the library's release; its arrays end with it."
            : "Bring the memlease library of this program to the daemon's release.");
}

ErrorFrame to_error_frame(const absl::Status& status) {
  return {code_of(status), message_of(status), hint_of(status)};
}

absl::Status to_status(const ErrorFrame& frame) {
  return make_error(frame.code, frame.message, frame.hint);
}

}  // namespace memlease::wire
