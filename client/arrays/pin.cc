#include "client/arrays/pin.h"

#include <memory>
#include <utility>

#include "client/arrays/outliving_pins.h"
#include "client/arrays/release_mark.h"
#include "client/ordering/gpu_order.h"

namespace memlease::internal {
namespace {

using PinMark = ReaderOrder::PinMark;

struct PinEnd {
  OpenArray* array;  // while the pin has the slot
  std::unique_ptr<PinnedSlot> pinned;
  std::unique_ptr<PinMark> mark;  // null for the host

  void operator()(const void* /*data*/) const {
    if (pinned->state.exchange(PinnedSlot::State::kEnds) == PinnedSlot::State::kReleased) {
      pinned->copies->let_go(pinned->data);
      return;
    }
    if (array->forked()) return;
    std::shared_ptr<OpenArray> handle;  // ends after the mark
    const ReleaseMark release_mark(array);
    if (pinned->number != 0) array->outliving_pins().remove(*pinned);
    if (mark != nullptr && !array->gpu()->order()->reader().end_pin(*mark, pinned->slot)) {
      array->owner().note_deferred();
      return;
    }
    if (!pinned->pages.make_writable()) return;
    array->reader_if_subscribed()->release(pinned->slot);
    if (!array->end_matters()) return;
    array->owner().note_release();
    handle = array->owner().handle_of(*array);
  }
};

PinEnd* end_of(const Pin& pin) { return std::get_deleter<PinEnd>(pin); }

}  // namespace

Pin make_pin(OpenArray& array, std::uint32_t slot, const std::byte* data) {
  array.reader_if_subscribed()->hold_again(slot);
  // NOLINTNEXTLINE(modernize-make-unique): it is an aggregate, and cannot be moved
  std::unique_ptr<PinnedSlot> pinned(new PinnedSlot{slot, const_cast<std::byte*>(data)});
  return Pin(data, PinEnd{&array, std::move(pinned),
                          array.gpu() == nullptr ? nullptr : std::make_unique<PinMark>()});
}

void protect_under(OpenArray& array, const Pin& pin) {
  if (const PinEnd* const end = end_of(pin)) {
    end->pinned->pages = array.protect(end->pinned->slot, end->pinned->data);
  }
}

void end_lease_of(OpenArray& array, const Pin& pin) {
  const PinEnd* const end = end_of(pin);
  if (end == nullptr || array.forked()) return;
  if (end->mark != nullptr) {
    array.gpu()->order()->reader().end_lease(*end->mark);
  } else {
    array.outliving_pins().add(*end->pinned);
  }
}

}  // namespace memlease::internal
