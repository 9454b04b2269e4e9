#include "tests/integration/hostile.h"

#include <limits>
#include <vector>

namespace memlease::testing {
namespace {

using Stub = v1::Control::Stub;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Hostile bad_spec(const std::string& name, const std::function<void(v1::ArraySpec&)>& spoil,
                 wire::ErrorCode code = wire::ErrorCode::kInvalidArgument) {
  return {"Create" + name, code, [spoil](const Attacker& attacker) {
            v1::CreateRequest request = good_create("b");
            spoil(*request.mutable_spec());
            return attacker.call(&Stub::Create, request);
          }};
}

Hostile bad_shape(const std::string& name, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides = {}) {
  return bad_spec(name, [shape, strides](v1::ArraySpec& spec) {
    spec.mutable_shape()->Assign(shape.begin(), shape.end());
    spec.mutable_strides_bytes()->Assign(strides.begin(), strides.end());
  });
}

template <typename Request, typename Reply>
Hostile bad_name(const std::string& name,
                 grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                 const std::string& value, wire::ErrorCode code) {
  return {name, code, [=](const Attacker& attacker) {
            Request request;
            request.set_name(value);
            return attacker.call(method, request);
          }};
}

Hostile bad_pattern(const std::string& name, const std::string& pattern) {
  return {name, wire::ErrorCode::kInvalidArgument, [=](const Attacker& attacker) {
            v1::ListRequest request;
            request.set_pattern(pattern);
            return attacker.call(&Stub::List, request);
          }};
}

const Hostile kHostile[] = {
    {"CreateNothing", wire::ErrorCode::kInvalidArgument,
     [](const Attacker& attacker) { return attacker.call(&Stub::Create); }},
    bad_spec("NameEmpty", [](v1::ArraySpec& spec) { spec.set_name(""); }),
    bad_spec("NameUpwards", [](v1::ArraySpec& spec) { spec.set_name("../b"); }),
    bad_spec("DTypeUnknown", [](v1::ArraySpec& spec) { spec.mutable_dtype()->set_bits(24); }),
    bad_spec("DTypeCut", [](v1::ArraySpec& spec) { spec.mutable_dtype()->set_lanes(65537); }),
    bad_shape("ShapeNegative", {4, -1}),
    bad_shape("ShapeOverflowing", {kHuge, kHuge}),
    bad_shape("ShapeOverflowingToZero", {std::int64_t{1} << 32, std::int64_t{1} << 32}),
    bad_shape("StridesOverlapping", {4, 8}, {28, 4}),
    bad_shape("StridesNegative", {4, 8}, {-32, 4}),
    bad_shape("StridesLeaving", {4, 8}, {kHuge - 3, 4}),
    bad_shape("StridesUnaligned", {4, 8}, {33, 4}),
    bad_shape("StridesTooMany", {4, 8}, {64, 32, 4}),
    bad_spec("SlotsNone", [](v1::ArraySpec& spec) { spec.set_slots(0); }),
    bad_spec("SlotsTooMany", [](v1::ArraySpec& spec) { spec.set_slots(UINT32_MAX); }),
    bad_spec("ModeNone", [](v1::ArraySpec& spec) { spec.set_mode(0); }),
    bad_spec("ModeSetUid", [](v1::ArraySpec& spec) { spec.set_mode(04600); }),
    bad_spec("LifetimeUnknown",
             [](v1::ArraySpec& spec) { spec.set_lifetime(static_cast<v1::Lifetime>(9)); }),
    bad_spec(
        "DeviceUnknown", [](v1::ArraySpec& spec) { spec.set_device("abacus"); },
        wire::ErrorCode::kUnsupported),
    bad_spec(
        "TakenName", [](v1::ArraySpec& spec) { spec.set_name("a"); },
        wire::ErrorCode::kAlreadyExists),
    bad_name("OpenMalformed", &Stub::Open, "a//b", wire::ErrorCode::kInvalidArgument),
    bad_name("OpenUnknown", &Stub::Open, "b", wire::ErrorCode::kNotFound),
    bad_name("WithdrawMalformed", &Stub::Withdraw, "", wire::ErrorCode::kInvalidArgument),
    bad_name("WithdrawUnknown", &Stub::Withdraw, "b", wire::ErrorCode::kNotFound),
    bad_name("LookUpMalformed", &Stub::LookUp, "a b", wire::ErrorCode::kInvalidArgument),
    bad_pattern("ListPatternTooLong", "*" + std::string(60'000, 'b')),
    bad_pattern("ListPatternWithBrackets", "[ab]*"),
    {"SubscribeUnopened", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Subscribe, attacker.id); }},
    {"SubscribeUnknown", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Subscribe, UINT64_MAX); }},
    {"AcquireWriterUnopened", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::AcquireWriter, attacker.id); }},
    {"AcquireWriterOfNothing", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::AcquireWriter, 0); }},
    {"CancelWriterUnopened", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::CancelWriter, attacker.id); }},
    {"ConfirmWriterUnopened", wire::ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.confirm(attacker.id, 1); }},
    {"HoldersUnopened", wire::ErrorCode::kNotFound,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Holders, attacker.id); }},
};

}  // namespace

v1::CreateRequest good_create(const std::string& name) {
  v1::CreateRequest request;
  wire::ArraySpec spec;
  spec.name = name;
  spec.dtype = {wire::DTypeCode::kFloat, 32, 1};
  spec.shape = {4, 8};
  *request.mutable_spec() = wire::to_proto(spec);
  return request;
}

std::span<const Hostile> hostile_calls() { return kHostile; }

}  // namespace memlease::testing
