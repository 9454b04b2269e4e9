// What programs write against the headers.
#include <memlease/memlease.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A library's number of 16 bits.
struct Half {
  unsigned short bits;
};
template <>
struct memlease::DTypeOf<Half> {
  static constexpr DType kDType = {2, 16, 1};
};
static_assert(memlease::dtype_of<const Half>() == memlease::DType{2, 16, 1});
#ifdef __FLT16_MANT_DIG__
static_assert(memlease::dtype_of<_Float16>() == memlease::DType{2, 16, 1});
#endif
#ifdef __STDCPP_BFLOAT16_T__
#include <stdfloat>
static_assert(memlease::dtype_of<std::float16_t>() == memlease::DType{2, 16, 1});
static_assert(memlease::dtype_of<std::bfloat16_t>() == memlease::DType{4, 16, 1});
#endif

void simulate(const memlease::Client& client);

void simulate(const memlease::Client& client) {
  memlease::CreateOptions options{"sim/u", memlease::dtype_of<float>(), {4, 6}};
  options.writer = memlease::Writer::Exclusive;
  options.attributes = {{"units", "K"},
                        {"step", 3},
                        {"scale", 0.1F},
                        {"periodic", true},
                        {"origin", std::vector<double>{0, 0.5}}};
  const memlease::Array field = client.create(options);
  if (const auto units = field.attributes().find("units"); units != field.attributes().end()) {
    options.name = std::get<std::string>(units->second);
  }
  using namespace std::chrono_literals;
  if (auto lease = field.try_write(0s)) {
    for (float& value : lease->view<float, 2>()) value = 1;
    lease->publish();
  }
  std::optional<memlease::ReadLease> kept;
  if (auto lease = field.try_read({0, field.version()})) kept = std::move(lease);
  std::vector<memlease::ReadLease> leases;
  leases.push_back(field.read({}));
  leases.push_back(field.read(1s));
  leases.push_back(field.read(std::chrono::steady_clock::now() + 500ms));
  if (auto lease = field.try_read(memlease::Timeout(10ms))) kept = std::move(lease);
  const memlease::View<const float, 2> view = leases.front().view<float, 2>();
  const memlease::Span<const float, 2> span = view.span();
  const float total = memlease::visit_indexer(span, [](auto indexer) {
    float sum = 0;
    for (decltype(indexer.size()) i = 0; i < indexer.size(); ++i) sum += indexer.element(i);
    return sum;
  });
  if (total > memlease::make_indexer(span).at(3, 5)) leases.front().release();
  const std::string name = client.open(field.name()).name();
  memlease::Follower follower = field.follow(std::chrono::seconds(1));
  const memlease::ReadLease newest = follower.next();
  for (memlease::ReadLease& lease : field.follow(1s)) kept = std::move(lease);
  for (const memlease::ReadLease& lease : follower) {
    if (lease.version() > newest.version()) break;
  }
  if (span(0, 0) < newest.view<float, 2>()(3, 5)) follower.close();
  for (const std::size_t place : memlease::wait({{field, follower.last()}})) {
    leases.at(place).release();
  }
}

void exchange(const memlease::Array& left, const memlease::Array& field);

void exchange(const memlease::Array& left, const memlease::Array& field) {
  using memlease::Range;
  const std::size_t last = 5;
  const auto theirs = left.read();
  auto lease = field.update(std::chrono::seconds(3));
  const memlease::Span<float, 1> halo = lease.span<float, 1>({Range(), 0});
  const auto from = theirs.span<float, 1>({Range(), last}).begin();
  for (float& value : halo) value = *from;
  const auto inner = memlease::make_indexer(lease.span<float, 2>({Range{1, -1}, Range{1, -1, 2}}));
  memlease::Region rows{Range{2}};
  if (rows.axes().front().is_index()) rows = {-1};
  std::vector<float> values(12, inner(0, 0));
  lease.publish();
  field.put(field.get<float>());
  field.get(rows, values.data(), values.size() * sizeof(float));
  field.put({Range{2, Range::kToEnd}}, values.data(), values.size() * sizeof(float));
  field.put({0, Range()}, memlease::GpuSource{values.data(), {}, {}, nullptr});
}

void move(const memlease::Client& client);

void move(const memlease::Client& client) {
  memlease::MemArray<float, 3> a(client, {2, 4, 7});
  a.write({1, 2, 3}, 5.0F);
  memlease::MemArray<float, 3> b = a;
  a.to("cuda:0");
  {
    const auto lock = a.lock();
    const auto indexer = lock.indexer<std::int32_t>();
    for (std::int32_t i = 0; i < indexer.size(); ++i) indexer.element(i) += 1;
  }
  swap(a, b);
  if (b(1, 2, 3) > a.read().at(1, 2, 3) && b.on_device()) b = std::move(a);
}
