#include "client/ctl/fit.h"

#include <algorithm>

namespace memlease::ctl {
namespace {

constexpr std::size_t kGap = 2;
// That a cropped column keeps.
constexpr std::size_t kLeastFirst = 10;
constexpr std::size_t kLeastLast = 12;

struct Place {
  std::size_t column = 0;
  int rank = 0;
  bool right = false;
  std::size_t width = 0;
  std::vector<std::string> texts;  // the title, then a cell for each row
};

std::vector<Place> places_of(const Table& table, const std::vector<int>& ranks,
                             const Style& style) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].title.empty()) continue;
    Place place{i, ranks[i], false, 0, {std::string(table.columns[i].title)}};
    for (const Row& row : table.rows) {
      place.right = place.right || is_number(row[i]);
      place.texts.push_back(spell(row[i], style));
    }
    for (const std::string& text : place.texts) place.width = std::max(place.width, width_of(text));
    places.push_back(std::move(place));
  }
  return places;
}

std::size_t width_of(const std::vector<Place>& places) {
  std::size_t width = 0;
  for (const Place& place : places) width += place.width + kGap;
  return width - std::min(width, kGap);
}

// As much as is needed, down to `least`.
void narrow(std::vector<Place>& places, Place& place, std::size_t least, std::size_t width) {
  const std::size_t all = width_of(places);
  if (all <= width || place.width <= least) return;
  place.width -= std::min(all - width, place.width - least);
}

void make_room(std::vector<Place>& places, std::size_t width) {
  while (!places.empty()) {
    if (!places.back().right) narrow(places, places.back(), kLeastLast, width);
    narrow(places, places.front(), std::max(kLeastFirst, width / 3), width);
    if (width_of(places) <= width) return;
    const auto least = std::ranges::max_element(places, {}, &Place::rank);
    if (least->rank == 0) break;
    places.erase(least);
  }
  if (!places.empty()) narrow(places, places.front(), 1, width);
}

}  // namespace

std::string cropped(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) continue;
    if (++characters == width) break;
  }
  return std::string(text.substr(0, end)) + '~';
}

std::string cropped_front(std::string_view text, std::size_t width) {
  const std::size_t characters = width_of(text);
  if (characters <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t begin = 0;
  for (std::size_t before = 0; begin < text.size(); ++begin) {
    if ((static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) continue;
    if (before++ == characters - width + 1) break;
  }
  return '~' + std::string(text.substr(begin));
}

std::vector<std::string> fit(const Table& table, const std::vector<int>& ranks, const Style& style,
                             std::size_t width) {
  std::vector<Place> places = places_of(table, ranks, style);
  make_room(places, width);
  std::vector<std::string> lines(table.rows.size() + 1);
  for (const Place& place : places) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool first = &place == &places.front();
      if (!first) lines[i].append(kGap, ' ');
      const std::string text = first && i > 0 ? cropped_front(place.texts[i], place.width)
                                              : cropped(place.texts[i], place.width);
      lines[i] += padded(text, place.width, place.right);
    }
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    line = cropped(line, width);
  }
  return lines;
}

}  // namespace memlease::ctl
