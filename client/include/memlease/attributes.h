// What an array's creator says of it to whoever opens it: units, axes and the like. Standard
// library only, C++17.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace memlease {

// Text, a truth value, a number, or a list of texts or of numbers of one kind. From a literal:
// "K" is text, 3 a std::int64_t, 0.5 a double.
using AttributeValue =
    std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                 std::vector<std::int64_t>, std::vector<double>>;

// In the order of names, each of which is UTF-8 of 1 to 255 bytes without control characters. Texts
// are UTF-8, too. All of them take 32 KiB at most: for each attribute 16 bytes and its name, 8 for
// each number, truth value and text, and the texts themselves.
using Attributes = std::map<std::string, AttributeValue, std::less<>>;

}  // namespace memlease
