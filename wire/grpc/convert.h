// Between the project's own values and the messages that carry them: the one place that knows both.
// Called by server/rpc and client/rpc. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "grpcpp/support/status.h"
#include "memlease/v1/types.pb.h"
#include "wire/array_spec.h"
#include "wire/attributes.h"
#include "wire/ids.h"

namespace memlease::wire {

// A failed call's details hold a serialized memlease.v1.Error. Texts are cut to what fits into
// HTTP/2 trailers, since an error that is too long to arrive would arrive as another error.
grpc::Status to_grpc(const absl::Status& status);

// The error as make_error made it on the other side. For an error of gRPC itself, which has no
// details, the nearest code: kDaemonLost for UNAVAILABLE, kTimeout for DEADLINE_EXCEEDED,
// kQuotaExceeded for RESOURCE_EXHAUSTED, kBusy where is_turned_away(), kInternal for what cannot
// happen between two memleases.
absl::Status from_grpc(const grpc::Status& status);
// gRPC had no thread for the call, which has not begun and may be made again: from_grpc() says
// kBusy.
bool is_turned_away(const grpc::Status& status);

v1::ArraySpec to_proto(const ArraySpec& spec);
// kInvalidArgument where a number does not fit its field; whether the spec makes sense is up to
// validate(spec).
absl::StatusOr<ArraySpec> from_proto(const v1::ArraySpec& spec);

// In the order of names.
google::protobuf::RepeatedPtrField<v1::NamedAttribute> to_proto(const Attributes& attributes);
// kInvalidArgument for a name that comes twice, and for a kind of value that this release does not
// have; the rest is up to validate(attributes).
absl::StatusOr<Attributes> from_proto(
    const google::protobuf::RepeatedPtrField<v1::NamedAttribute>& attributes);
// The same, of an array: null if there are none.
absl::StatusOr<SharedAttributes> shared_from_proto(
    const google::protobuf::RepeatedPtrField<v1::NamedAttribute>& attributes);

v1::FileRange to_proto(const FileRange& range);
FileRange from_proto(const v1::FileRange& range);

std::string to_proto(const DeviceHandle& handle);
// kInternal unless it has a handle's size.
absl::StatusOr<DeviceHandle> handle_from_proto(std::string_view bytes);

v1::RowRef to_proto(const RowRef& row);
RowRef from_proto(const v1::RowRef& row);

}  // namespace memlease::wire
