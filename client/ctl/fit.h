// Tables on a terminal of any width. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/table.h"

namespace memlease::ctl {

// Its beginning and "~" where it is wider, in whole characters.
std::string cropped(std::string_view text, std::size_t width);
// "~" and its end: of names like paths the end tells most.
std::string cropped_front(std::string_view text, std::size_t width);

// The titles and the rows, none wider than `width`. Where there is no room for all columns, the
// last and the first one, at its front, are cropped; then those with the greatest ranks are left
// out. `ranks` has one for each column; rank 0 stays.
std::vector<std::string> fit(const Table& table, const std::vector<int>& ranks, const Style& style,
                             std::size_t width);

}  // namespace memlease::ctl
