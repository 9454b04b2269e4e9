#include "wire/grpc/convert.h"

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/utf8.h"

namespace memlease::wire {
namespace {

// gRPC refuses trailers above 8 KiB by default. The message travels percent-encoded (at worst three
// bytes for one) beside the details, which are base64: 256 * 3 + (3072 + 1024) * 4 / 3 fits.
constexpr std::size_t kMaxStatusBytes = 256;
constexpr std::size_t kMaxMessageBytes = 3072;
constexpr std::size_t kMaxHintBytes = 1024;
constexpr std::string_view kCut = "...";

// Valid UTF-8 of at most `max_bytes`, which ends in "..." if there was more.
std::string bounded(std::string_view text, std::size_t max_bytes) {
  std::string valid = to_utf8(text);
  if (valid.size() <= max_bytes) return valid;
  std::size_t end = max_bytes - kCut.size();
  while (end > 0 && is_utf8_continuation(valid[end])) --end;
  return valid.substr(0, end).append(kCut);
}

ErrorCode code_of_grpc(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return ErrorCode::kDaemonLost;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kTimeout;
    case grpc::StatusCode::CANCELLED:
      return ErrorCode::kInterrupted;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorCode::kDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorCode::kQuotaExceeded;
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kVersionSkew;
    default:
      return ErrorCode::kInternal;
  }
}

std::string_view hint_of_grpc(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDaemonLost:
      return "The daemon has ended, or it has cut or refused a connection of this user's, at a "
             "limit that its log names: then try again. Else connect again.";
    case ErrorCode::kTimeout:
      return "Is it stopped, or the machine overloaded?";
    case ErrorCode::kQuotaExceeded:
      return "The message is too long, or there is no room for it: ask for less.";
    case ErrorCode::kVersionSkew:
      return "The daemon is of another version: restart it, or update this side.";
    default:
      return "";
  }
}

struct SetValue {
  v1::NamedAttribute& attribute;
  void operator()(const std::string& text) const { attribute.set_text(text); }
  void operator()(bool flag) const { attribute.set_flag(flag); }
  void operator()(std::int64_t integer) const { attribute.set_integer(integer); }
  void operator()(double real) const { attribute.set_real(real); }
  void operator()(const std::vector<std::string>& texts) const {
    attribute.mutable_texts()->mutable_values()->Assign(texts.begin(), texts.end());
  }
  void operator()(const std::vector<std::int64_t>& integers) const {
    attribute.mutable_integers()->mutable_values()->Assign(integers.begin(), integers.end());
  }
  void operator()(const std::vector<double>& reals) const {
    attribute.mutable_reals()->mutable_values()->Assign(reals.begin(), reals.end());
  }
};

// Nothing where its kind is not known.
std::optional<AttributeValue> value_of(const v1::NamedAttribute& attribute) {
  const auto all = [](const auto& values) { return std::vector(values.begin(), values.end()); };
  switch (attribute.value_case()) {
    case v1::NamedAttribute::kText:
      return attribute.text();
    case v1::NamedAttribute::kFlag:
      return attribute.flag();
    case v1::NamedAttribute::kInteger:
      return attribute.integer();
    case v1::NamedAttribute::kReal:
      return attribute.real();
    case v1::NamedAttribute::kTexts:
      return all(attribute.texts().values());
    case v1::NamedAttribute::kIntegers:
      return all(attribute.integers().values());
    case v1::NamedAttribute::kReals:
      return all(attribute.reals().values());
    case v1::NamedAttribute::VALUE_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace

grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Error error;
  error.set_code(static_cast<int>(code_of(status)));
  error.set_message(bounded(message_of(status), kMaxMessageBytes));
  error.set_hint(bounded(hint_of(status), kMaxHintBytes));
  // Both count codes as google.rpc.Code does.
  return {static_cast<grpc::StatusCode>(status.code()),
          bounded(message_of(status), kMaxStatusBytes), error.SerializeAsString()};
}

// The words of ServerBuilder's synchronous services (server_cc.cc), in all releases.
bool is_turned_away(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_details().empty() && status.error_message() == "Server Threadpool Exhausted";
}

absl::Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Error error;
  if (!status.error_details().empty() && error.ParseFromString(status.error_details()) &&
      is_error_code(error.code())) {
    return make_error(static_cast<ErrorCode>(error.code()), error.message(), error.hint());
  }
  if (is_turned_away(status)) {
    return make_error(ErrorCode::kBusy,
                      "as many calls of this user are under way as the daemon serves at once",
                      "Try again later, or let fewer processes and threads call at once.");
  }
  const ErrorCode code = code_of_grpc(status.error_code());
  if (code == ErrorCode::kDaemonLost) {
    return make_error(code,
                      fmt::format("the connection is lost, or the daemon does not answer any more "
                                  "(gRPC: {})",
                                  status.error_message()),
                      hint_of_grpc(code));
  }
  if (code == ErrorCode::kTimeout) {
    return make_error(
        code, fmt::format("the daemon did not answer in time (gRPC: {})", status.error_message()),
        hint_of_grpc(code));
  }
  return make_error(code,
                    fmt::format("the call failed in gRPC (status {}): {}",
                                static_cast<int>(status.error_code()), status.error_message()),
                    hint_of_grpc(code));
}

v1::ArraySpec to_proto(const ArraySpec& spec) {
  v1::ArraySpec out;
  out.set_name(spec.name);
  out.mutable_dtype()->set_code(static_cast<std::uint32_t>(spec.dtype.code));
  out.mutable_dtype()->set_bits(spec.dtype.bits);
  out.mutable_dtype()->set_lanes(spec.dtype.lanes);
  out.mutable_shape()->Assign(spec.shape.begin(), spec.shape.end());
  out.mutable_strides_bytes()->Assign(spec.strides_bytes.begin(), spec.strides_bytes.end());
  out.set_device(spec.device);
  out.set_slots(spec.slots);
  out.set_max_slots(spec.max_slots);
  out.set_lifetime(spec.lifetime == Lifetime::kPersistent ? v1::LIFETIME_PERSISTENT
                                                          : v1::LIFETIME_SESSION);
  out.set_mode(spec.mode);
  out.set_writer(spec.writer == Writer::kExclusive ? v1::WRITER_EXCLUSIVE : v1::WRITER_ANY);
  return out;
}

absl::StatusOr<ArraySpec> from_proto(const v1::ArraySpec& spec) {
  const v1::DType& dtype = spec.dtype();
  if (dtype.code() > std::numeric_limits<std::uint8_t>::max() ||
      dtype.bits() > std::numeric_limits<std::uint8_t>::max() ||
      dtype.lanes() > std::numeric_limits<std::uint16_t>::max()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("dtype {{code {}, bits {}, lanes {}}} is beyond DLPack's ranges",
                                  dtype.code(), dtype.bits(), dtype.lanes()),
                      "Known are " + known_dtype_names() + ".");
  }
  if (spec.lifetime() != v1::LIFETIME_SESSION && spec.lifetime() != v1::LIFETIME_PERSISTENT) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("lifetime {} is not known", static_cast<int>(spec.lifetime())),
                      "Use session or persistent.");
  }
  if (spec.writer() != v1::WRITER_ANY && spec.writer() != v1::WRITER_EXCLUSIVE) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("writer {} is not known", static_cast<int>(spec.writer())),
                      "Use any or exclusive.");
  }
  ArraySpec out;
  out.name = spec.name();
  out.dtype = {static_cast<DTypeCode>(dtype.code()), static_cast<std::uint8_t>(dtype.bits()),
               static_cast<std::uint16_t>(dtype.lanes())};
  out.shape.assign(spec.shape().begin(), spec.shape().end());
  out.strides_bytes.assign(spec.strides_bytes().begin(), spec.strides_bytes().end());
  out.device = spec.device();
  out.slots = spec.slots();
  out.max_slots = spec.max_slots();
  out.lifetime = static_cast<Lifetime>(spec.lifetime());
  out.mode = spec.mode();
  out.writer = static_cast<Writer>(spec.writer());
  return out;
}

google::protobuf::RepeatedPtrField<v1::NamedAttribute> to_proto(const Attributes& attributes) {
  google::protobuf::RepeatedPtrField<v1::NamedAttribute> out;
  for (const auto& [name, value] : attributes) {
    v1::NamedAttribute& attribute = *out.Add();
    attribute.set_name(name);
    std::visit(SetValue{attribute}, value);
  }
  return out;
}

absl::StatusOr<Attributes> from_proto(
    const google::protobuf::RepeatedPtrField<v1::NamedAttribute>& attributes) {
  Attributes out;
  for (const v1::NamedAttribute& attribute : attributes) {
    auto value = value_of(attribute);
    if (!value) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the attribute '{}' has a value of a kind that is not known",
                                    to_utf8(attribute.name())),
                        "Bring library and daemon to one release.");
    }
    if (!out.emplace(attribute.name(), *std::move(value)).second) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the attribute '{}' is there twice", to_utf8(attribute.name())),
                        "Give each name once.");
    }
  }
  return out;
}

absl::StatusOr<SharedAttributes> shared_from_proto(
    const google::protobuf::RepeatedPtrField<v1::NamedAttribute>& attributes) {
  auto read = from_proto(attributes);
  if (!read.ok()) return read.status();
  if (read->empty()) return SharedAttributes();
  return std::make_shared<const Attributes>(*std::move(read));
}

v1::FileRange to_proto(const FileRange& range) {
  v1::FileRange out;
  out.set_file_id(to_int(range.file));
  out.set_offset(range.offset);
  return out;
}

FileRange from_proto(const v1::FileRange& range) {
  return {FileId{range.file_id()}, range.offset()};
}

std::string to_proto(const DeviceHandle& handle) {
  return {reinterpret_cast<const char*>(handle.data()), handle.size()};
}

absl::StatusOr<DeviceHandle> handle_from_proto(std::string_view bytes) {
  DeviceHandle handle;
  if (bytes.size() != handle.size()) {
    return defect(fmt::format("a handle has {} bytes instead of {}", bytes.size(), handle.size()));
  }
  std::memcpy(handle.data(), bytes.data(), handle.size());
  return handle;
}

v1::RowRef to_proto(const RowRef& row) {
  v1::RowRef out;
  out.set_file_id(to_int(row.file));
  out.set_unit(row.unit);
  return out;
}

RowRef from_proto(const v1::RowRef& row) { return {FileId{row.file_id()}, row.unit()}; }

}  // namespace memlease::wire
