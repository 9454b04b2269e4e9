#include "server/core/page_allocator.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <ranges>
#include <utility>

#include "wire/board.h"

namespace memlease::server {

namespace {
constexpr std::uint64_t kUnit = wire::kRowUnitBytes;
static_assert(wire::kRowUnitBytes == wire::kBoardUnitBytes);
}  // namespace

PageAllocator::PageAllocator(FileTable& files, PageSource& source, const Kind& kind)
    : files_(files), source_(source), kind_(kind) {}

PageAllocator::~PageAllocator() {
  for (const Page& page : pages_) files_.remove(page.file);
}

absl::StatusOr<wire::FileRange> PageAllocator::allocate(std::uint32_t units) {
  const std::uint64_t bytes = units * kUnit;
  assert(bytes <= kind_.file_bytes - kind_.header_bytes);
  // The newest first: of many, nearly all are full.
  for (Page& page : std::views::reverse(pages_)) {
    if (const auto offset = page.arena.allocate(bytes, kUnit)) {
      const wire::FileRange at{page.file, *offset};
      const bool is_daemons =
          wire::to_int(kind_.owner) == 0 && kind_.kind != wire::FileKind::kEvents;
      if (is_daemons) std::memset(files_.data(at), 0, bytes);
      return at;
    }
  }
  const bool daemon_writes = wire::to_int(kind_.owner) == 0;
  auto memory = source_.create_pages(kind_.file_bytes, daemon_writes,
                                     files_.reserve_kept(kind_.payer, kind_.file_bytes));
  if (!memory.ok()) return memory.status();
  auto id = files_.add({std::move(*memory), kind_.kind, kind_.domain, kind_.owner}, kind_.payer);
  if (!id.ok()) return id.status();
  pages_.push_back(Page{*id, Arena(kind_.file_bytes)});
  if (kind_.header_bytes != 0) {
    const auto header = pages_.back().arena.allocate(kind_.header_bytes, kUnit);
    assert(header == 0);
    static_cast<void>(header);
  }
  return wire::FileRange{*id, *pages_.back().arena.allocate(bytes, kUnit)};
}

void PageAllocator::free(wire::FileRange at, std::uint32_t units) {
  const auto page =
      std::find_if(pages_.begin(), pages_.end(), [&](const Page& p) { return p.file == at.file; });
  assert(page != pages_.end());
  page->arena.free(at.offset, units * kUnit);
  if (page->arena.used_bytes() == kind_.header_bytes) {
    files_.remove(page->file);
    pages_.erase(page);
  }
}

std::vector<wire::FileId> PageAllocator::files() const {
  std::vector<wire::FileId> files;
  files.reserve(pages_.size());
  for (const Page& page : pages_) files.push_back(page.file);
  return files;
}

}  // namespace memlease::server
