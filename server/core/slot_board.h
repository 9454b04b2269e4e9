// The daemon's half of the slot protocol: who is the writer, who reads, and what a dead writer
// leaves behind. Touches only the daemon's own pages; a client's row is read once, word by word,
// and whatever stands there can spoil nothing but that client's own array.
//
// Read it beside tests/model/; the client's half is client/slots/slot_{reader,writer}.cc.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "wire/board.h"
#include "wire/session_pages.h"

namespace memlease::server {

// How a session stopped using an array: politely, or by the end of its process, which also ends
// what it had given to a GPU.
enum class Departure : std::uint8_t { kLeft, kExited };

// A fresh record: the array has no writer and no version.
void init_board(wire::BoardRecord& board, wire::ArrayId id, std::uint32_t slots,
                wire::RowRef takeover);

// One slot more, at this place. Where the writer's row has no version for it.
void add_slot(wire::BoardRecord& board, wire::SlotLayout layout, wire::FileRange place);
// The last slot is about to go: nobody begins to use it. With seq_cst on both sides: either a
// reader or writer sees this, or the look at holds and the writer's row sees him.
void begin_closing(wire::BoardRecord& board);
// It has gone, or is there as before.
void end_closing(wire::BoardRecord& board, bool gone);
// Does its writer use the slot, or is what he published there current?
bool writer_uses(const wire::WriterRow& row, std::uint32_t slot);

// From now on no write begins under the old ownership. With seq_cst on both sides: either the
// writer sees this mark, or is_writing() sees the writer.
void set_moving(wire::BoardRecord& board);
void clear_moving(wire::BoardRecord& board);
bool is_writing(const wire::WriterRow& row);

// `row` counts from now on. Ends a move; wakes everybody who waits for a change.
void set_writer(wire::BoardRecord& board, wire::RowRef row, bool vacant);

// Nothing new begins from now on; what is held stays. As with set_moving, either a reader or
// writer sees this, or the daemon sees its hold or mark.
void set_withdrawn(wire::BoardRecord& board);
void set_draining(wire::BoardRecord& board);

// Is the row in use by its reader? After set_withdrawn or the end of its process, "no" is final.
bool holds_any(const wire::ReaderRow& row, std::uint32_t slots);

// Takes over what `from` published last, into the takeover row, and makes that one count. A slot
// whose bytes may be half written has no version, and the number that it would have got is
// poisoned. The process of `from` has exited or has given ownership up. `stands(slot)`: what was
// published there is complete, or will be; otherwise its number is poisoned, too.
void take_over(wire::BoardRecord& board, wire::WriterRow& takeover, wire::RowRef takeover_ref,
               const wire::WriterRow& from, wire::SlotLayout layout,
               absl::FunctionRef<bool(std::uint32_t)> stands);

// The replica of this number has versions, or is about to, that the home has not; or it has gone.
// Whoever waits for a version of the home looks again.
void set_elsewhere(wire::BoardRecord& home, std::uint32_t number, bool is);

void add_subscriber(wire::BoardRecord& board, wire::Word& entry, wire::RowRef row);
// The entry stays where it is; a writer that waits for this reader is woken.
void remove_subscriber(wire::BoardRecord& board, wire::Word& entry);

}  // namespace memlease::server
