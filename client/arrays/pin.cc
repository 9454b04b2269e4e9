#include "client/arrays/pin.h"

#include <memory>

#include "client/arrays/release_mark.h"
#include "client/ordering/gpu_order.h"

namespace memlease::internal {
namespace {

using PinMark = ReaderOrder::PinMark;

struct PinEnd {
  OpenArray* array;
  std::uint32_t slot;
  std::shared_ptr<PinMark> mark;  // null for the host
  ProtectedPages pages = {};      // for as long as the pin lives

  void operator()(const void* /*data*/) const {
    if (array->forked()) return;
    std::shared_ptr<OpenArray> handle;  // ends after the mark
    const ReleaseMark release_mark(array);
    if (mark != nullptr && !array->gpu()->order()->reader().end_pin(*mark, slot)) {
      array->owner().note_deferred();
      return;
    }
    if (!pages.make_writable()) return;
    array->reader_if_subscribed()->release(slot);
    if (!array->end_matters()) return;
    array->owner().note_release();
    handle = array->owner().handle_of(*array);
  }
};

}  // namespace

Pin make_pin(OpenArray& array, std::uint32_t slot, const void* data) {
  array.reader_if_subscribed()->hold_again(slot);
  return Pin(data,
             PinEnd{&array, slot, array.gpu() == nullptr ? nullptr : std::make_shared<PinMark>()});
}

void protect_under(OpenArray& array, std::uint32_t slot, const Pin& pin) {
  if (auto* const end = std::get_deleter<PinEnd>(pin)) end->pages = array.protect(slot);
}

void end_lease_of(OpenArray& array, const Pin& pin) {
  if (const PinEnd* end = std::get_deleter<PinEnd>(pin); end != nullptr && end->mark != nullptr) {
    array.gpu()->order()->reader().end_lease(*end->mark);
  }
}

}  // namespace memlease::internal
