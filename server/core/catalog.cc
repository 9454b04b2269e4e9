#include "server/core/catalog.h"

#include <cassert>
#include <utility>

namespace memlease::server {

Array& Catalog::add(std::unique_ptr<Array> array) {
  Array& reference = *array;
  const bool named = names_.insert(&reference).second;
  assert(named);
  static_cast<void>(named);
  if (reference.rare().home) replicas_.insert(reference.id);
  arrays_.emplace(reference.id, std::move(array));
  return reference;
}

Array* Catalog::find(std::string_view name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : *it;
}

Array* Catalog::find(wire::ArrayId id) const {
  const auto it = arrays_.find(id);
  return it == arrays_.end() ? nullptr : it->second.get();
}

void Catalog::remove_name(const Array& array) {
  const auto named = names_.find(array.name);
  assert(named != names_.end() && *named == &array);
  names_.erase(named);
  replicas_.erase(array.id);
  withdrawn_.insert(array.id);
}

void Catalog::erase(wire::ArrayId id) {
  withdrawn_.erase(id);
  arrays_.erase(id);
}

Array* Catalog::first_after(wire::ArrayId id) const {
  const auto found = arrays_.upper_bound(id);
  return found == arrays_.end() ? nullptr : found->second.get();
}

std::vector<Array*> Catalog::all() const {
  std::vector<Array*> found;
  found.reserve(arrays_.size());
  for (const auto& [id, array] : arrays_) found.push_back(array.get());
  return found;
}

}  // namespace memlease::server
