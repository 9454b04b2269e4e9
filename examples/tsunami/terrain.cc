#include "terrain.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace tsunami {
namespace {

constexpr double kMetresPerLatitude = 111.2e3;

struct Axis {
  std::size_t size;
  double first;
  double last;
  double step() const { return (last - first) / static_cast<double>(size - 1); }
};

Axis read_axis(const memlease::Client& client, const char* name) {
  const auto lease = client.wait_for(name).read();
  const auto values = lease.span<double, 1>();
  const auto size = static_cast<std::size_t>(values.extent(0));
  if (size < 2) throw std::runtime_error(std::string(name) + " needs at least two values");
  return {size, values.data()[0], values.data()[size - 1]};
}

}  // namespace

Terrain::Terrain(const memlease::Client& client) : bed_(client.wait_for("tsunami/bed").read()) {
  const auto bed = bed_.span<float, 2>();
  rows_ = static_cast<std::size_t>(bed.extent(0));
  columns_ = static_cast<std::size_t>(bed.extent(1));
  const Axis longitude = read_axis(client, "tsunami/longitude");
  const Axis latitude = read_axis(client, "tsunami/latitude");
  if (longitude.size != columns_ || latitude.size != rows_) {
    throw std::runtime_error("tsunami/bed is " + std::to_string(rows_) + " x " +
                             std::to_string(columns_) + ", its axes are " +
                             std::to_string(latitude.size) + " x " +
                             std::to_string(longitude.size) + ": put all three from one source");
  }
  west_ = longitude.first;
  south_ = latitude.first;
  const double middle = (latitude.first + latitude.last) / 2 * std::numbers::pi / 180;
  metres_per_longitude_ = kMetresPerLatitude * std::cos(middle);
  dx_m_ = longitude.step() * metres_per_longitude_;
  dy_m_ = latitude.step() * kMetresPerLatitude;
}

std::span<const float> Terrain::bed(RowRange rows) const {
  return {bed_.span<float, 2>().data() + rows.first * columns_, rows.count * columns_};
}

std::pair<double, double> Terrain::metres_of(double longitude, double latitude) const {
  return {(longitude - west_) * metres_per_longitude_, (latitude - south_) * kMetresPerLatitude};
}

}  // namespace tsunami
