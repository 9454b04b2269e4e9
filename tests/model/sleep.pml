/* Sleeping: nobody sleeps for ever. There are no time-outs here, so a lost wake-up is an invalid end state.

   Steps          wait_newer (expected counts, sleep flag, re-check, sleep), a writer's wait for a slot (wanted), the wakes
                  by the end of a write, release and undo, add_subscriber, remove_subscriber; who asks for ownership, and
                  sleeps while its owner writes; the move of ownership with its event count.
   Bounded        session 0 = threads 0 and 1, which share a row and its sleep flag; session 1 = thread 2, which may die
                  while it holds (-DDEATH), or subscribe late (-DLATE); writer A, and with -DMOVE writer B, to which ownership
                  moves once; versions to VM, two slots. The daemon answers B at once, in B's steps: only B asks (lock.pml).
   Not modelled   those who wait behind B, or ask while nobody is served: they do not sleep without end. Bytes (holds.pml),
                  fences, deaths of writers (gpu_ownership.pml), slots = 1 (single.pml). A futex is "sleep if the word
                  still has the expected value" in one step; a wake reaches all sleepers of the word. A count is one flag
                  for each process that waits for it: bumped since that process loaded it. The futex sees no more of a
                  count, but for 2^32 bumps in between.
   Property       every reader that goes on sees version VM, and the writers publish it. */

#define NS 2
#ifndef VM
#define VM 3
#endif
#include "words.pml"

#define ROW(t) ((t) / 2)
#define AT(row, slot) ((row) * NS + (slot))
#define kWriterA 0
#define kWriterB 1

/* writer rows */ byte publication[2], slot_word[2 * NS]; bool writing[2], wanted[2];
/* reader rows */ byte holds[2]; bool sleeping[2];
/* board */ byte writer_word = kWriterA; bool moving, moved, subscribed[2] = true;
/* counts, see above; true also while nobody compares */
bool publish_count[6] = true; /* of writer row r, for thread t: 3 * r + t */
bool release_count[4] = true; /* of reader row r, for writer w: 2 * r + w */
bool event_count[5] = true; /* for the threads, then for the writers */
bool asked_count = true; /* the publish count of writer A, for writer B */
/* private to session 0 */ byte count[NS], sleepers;
/* private to the writers */ bool listed[2] = true; /* session 1's release count is among the words to sleep on */
/* the kernel's */ bool asleep[3], writer_asleep[2];
/* ghost */ bool alive = true; /* session 1 */

#define OF_ROW(r, t) (3 * (r) + (t))
#define OF_READER(r, w) (2 * (r) + (w))
#define OF_WRITER(w) (3 + (w))

inline bump_publish_count() {
  atomic {
    publish_count[OF_ROW(me, 0)] = true; publish_count[OF_ROW(me, 1)] = true; publish_count[OF_ROW(me, 2)] = true;
    if :: me == kWriterA -> asked_count = true :: else fi
  }
}

inline bump_release_count() {
  atomic { release_count[OF_READER(ROW(t), 0)] = true; release_count[OF_READER(ROW(t), 1)] = true }
}

inline bump_event_count() {
  atomic {
    event_count[0] = true; event_count[1] = true; event_count[2] = true; event_count[3] = true; event_count[4] = true
  }
}

inline wake_board() { /* everybody waits for the event count too */
  atomic { asleep[0] = false; asleep[1] = false; asleep[2] = false; writer_asleep[0] = false; writer_asleep[1] = false }
}

inline wake_asker() { if :: me == kWriterA -> writer_asleep[kWriterB] = false :: else fi }

inline wake_count() { /* the code wakes all where one sleeps, here only those whose flag is set */
#ifndef OMIT_WAKE_WHO_ASKS
  if :: atomic { moving -> wake_asker() } :: !moving fi;
#endif
  if :: atomic { sleeping[0] -> asleep[0] = false; asleep[1] = false; wake_asker() } :: !sleeping[0] fi;
  if :: atomic { sleeping[1] -> asleep[2] = false; wake_asker() } :: !sleeping[1] fi
}

inline set_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] | BIT(s) }
  :: atomic { t != 2 -> count[s]++; holds[0] = holds[0] | BIT(s) }
  fi
}

inline clear_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] & ~BIT(s) }
  :: atomic { t != 2 -> count[s]--; if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
  fi
}

inline wake_writer() { /* whoever clears a bit looks at the writer's wanted, afterwards */
#ifndef OMIT_CLEAR_BEFORE_WANTED
  w = writer_word;
  seen_wanted = wanted[w];
#endif
  if
  :: seen_wanted ->
#ifndef OMIT_RELEASE_COUNT
     bump_release_count();
#endif
     atomic {
       seen_wanted = false;
       if :: t != 2 || listed[0] -> writer_asleep[0] = false :: else fi;
       if :: t != 2 || listed[1] -> writer_asleep[1] = false :: else fi
     }
  :: !seen_wanted
  fi
}

inline look_at_wanted_first() {
#ifdef OMIT_CLEAR_BEFORE_WANTED
  w = writer_word;
  seen_wanted = wanted[w]
#else
  skip
#endif
}

inline undo() {
#ifdef OMIT_UNDO_WAKES
  clear_hold()
#else
  look_at_wanted_first();
  clear_hold();
  wake_writer()
#endif
}

inline release() { look_at_wanted_first(); clear_hold(); wake_writer() }

inline load_expected() { /* counts(): the board's first, as a writer that changes later changes it */
#ifndef OMIT_EVENT_COUNT_FIRST
  event_count[t] = false;
#endif
  w = writer_word;
  publish_count[OF_ROW(w, t)] = false;
#ifdef OMIT_EVENT_COUNT_FIRST
  event_count[t] = false
#endif
}

inline set_sleeping() { /* the flag follows a private count, as a hold bit does */
  if
  :: atomic { t == 2 -> sleeping[1] = true }
  :: atomic { t != 2 -> sleepers++; sleeping[0] = true }
  fi
}

inline clear_sleeping() {
  if
  :: atomic { t == 2 -> sleeping[1] = false }
#ifdef OMIT_COUNT_OF_SLEEPERS
  :: atomic { t != 2 -> sleepers--; sleeping[0] = false }
#else
  :: atomic { t != 2 -> sleepers--; sleeping[0] = (sleepers > 0) }
#endif
  fi
}

inline look_again() { /* an acquire of its own, of whoever is the writer now -> nothing_new */
  do
  :: now = writer_word;
     if
     :: VERSION(publication[now]) > last -> nothing_new = false; break
     :: else -> if :: writer_word == now -> nothing_new = true; break :: else fi
     fi
  od;
  now = 0
}

inline forget_expected() { atomic { publish_count[OF_ROW(w, t)] = true; event_count[t] = true } }

inline futex_wait() {
  if
  :: atomic { !publish_count[OF_ROW(w, t)] && !event_count[t] -> asleep[t] = true };
     !asleep[t]
  :: else
  fi
}

inline wait_newer() {
#ifndef OMIT_EXPECTED_FIRST
  load_expected();
#endif
#ifndef OMIT_FLAG_BEFORE_RECHECK
  set_sleeping();
#endif
#ifdef OMIT_RECHECK
  futex_wait();
#else
  look_again();
  if
  :: nothing_new ->
#ifdef OMIT_EXPECTED_FIRST
     load_expected();
#endif
#ifdef OMIT_FLAG_BEFORE_RECHECK
     set_sleeping();
     futex_wait();
     clear_sleeping()
#else
     futex_wait()
#endif
  :: !nothing_new
  fi;
  nothing_new = false;
#endif
#ifndef OMIT_FLAG_BEFORE_RECHECK
  clear_sleeping();
#endif
  forget_expected()
}

inline add_subscriber(row) { /* a call, which is answered then; wakes nobody, as it has held nothing yet */
#ifdef OMIT_ENTRY_BEFORE_EVENT_COUNT
  bump_event_count();
  subscribed[row] = true
#else
  subscribed[row] = true;
#ifndef OMIT_SUBSCRIBER_EVENT
  bump_event_count()
#endif
#endif
}

proctype reader(byte t) {
  byte s, v, w, now, last;
  bool seen_wanted, nothing_new;
  {
#ifdef LATE
    if
    :: t == 2 -> /* and reads an older version first, by its number */
       add_subscriber(1);
       w = writer_word;
       s = 1 - SLOT(publication[w]);
       set_hold();
       release();
       atomic { s = 0; w = 0 }
    :: else
    fi;
#endif
    do
    :: last == VM -> break
    :: last < VM ->
       w = writer_word;
       atomic { s = SLOT(publication[w]); v = VERSION(publication[w]) };
       if
       :: v > last ->
          set_hold();
          if
          :: atomic { slot_word[AT(w, s)] == v && writer_word == w -> last = v };
             release()
          :: else -> undo()
          fi;
          if :: true :: last = VM fi /* a program may end after any try */
       :: v <= last -> wait_newer()
       fi;
       atomic { s = 0; v = 0; w = 0 }
    od
  } unless { t == 2 && !alive }
}

inline scan() { /* -> held */
  held = subscribed[0] && ((holds[0] & BIT(s)) != 0);
  held = held || (subscribed[1] && ((holds[1] & BIT(s)) != 0))
}

inline wait_slot() { /* only words that somebody bumps: the release counts of the rows and the event count */
  wanted[me] = true;
#ifndef OMIT_EVENT_COUNT_BEFORE_LIST
  event_count[OF_WRITER(me)] = false;
#endif
  atomic { /* loads, in any order */
    listed[me] = subscribed[1];
    release_count[OF_READER(0, me)] = false; release_count[OF_READER(1, me)] = false
  };
#ifdef OMIT_EVENT_COUNT_BEFORE_LIST
  event_count[OF_WRITER(me)] = false;
#endif
#ifndef OMIT_SCAN_AGAIN
  scan();
#endif
  if
  :: held ->
     if
     :: atomic {
          !release_count[OF_READER(0, me)] && !(listed[me] && release_count[OF_READER(1, me)]) &&
          !event_count[OF_WRITER(me)] -> writer_asleep[me] = true
        };
        !writer_asleep[me]
     :: else
     fi
  :: !held
  fi;
  atomic {
    wanted[me] = false; held = false; listed[me] = true;
    release_count[OF_READER(0, me)] = true; release_count[OF_READER(1, me)] = true; event_count[OF_WRITER(me)] = true
  }
}

inline begin_write() { /* waits for its slot */
  do
  :: atomic { old = slot_word[AT(me, s)]; slot_word[AT(me, s)] = old | kWriting }; /* mark */
     scan();
     if
     :: !held -> break
     :: held -> slot_word[AT(me, s)] = old; /* take_back */
        wait_slot()
     fi
  od
}

inline end_write() {
#ifdef OMIT_FLAG_BEFORE_COUNT
  bump_publish_count();
  writing[me] = false;
#else
  writing[me] = false;
  bump_publish_count();
#endif
  wake_count()
}

inline publish() {
  slot_word[AT(me, s)] = VERSION(publication[me]) + 1;
#ifdef OMIT_PUBLICATION_BEFORE_COUNT
  end_write();
  publication[me] = PUBLICATION(VERSION(publication[me]) + 1, s)
#else
  publication[me] = PUBLICATION(VERSION(publication[me]) + 1, s);
  end_write()
#endif
}

inline adopt_ownership() {
  atomic {
    slot_word[AT(kWriterB, 0)] = slot_word[AT(kWriterA, 0)];
    slot_word[AT(kWriterB, 1)] = slot_word[AT(kWriterA, 1)];
    publication[kWriterB] = publication[kWriterA]
  }
}

inline confirm() {
#if defined(OMIT_WRITER_WORD_BEFORE_EVENT_COUNT)
  bump_event_count();
  wake_board();
  atomic { writer_word = kWriterB; moving = false; moved = true }
#elif defined(OMIT_MOVE_EVENT)
  atomic { writer_word = kWriterB; moving = false; moved = true }
#else
  atomic { writer_word = kWriterB; moving = false; moved = true };
  bump_event_count();
  wake_board()
#endif
}

inline take_counts() { event_count[OF_WRITER(me)] = false; asked_count = false }

inline ask_for_ownership() { /* the counts, the daemon's answer, then a sleep unless it is an offer */
#ifndef OMIT_COUNTS_BEFORE_ASKING
  take_counts();
#endif
  moving = true;
  if
  :: !writing[kWriterA] -> adopt_ownership(); confirm()
  :: else ->
#ifdef OMIT_COUNTS_BEFORE_ASKING
     take_counts();
#endif
     if
     :: atomic { !asked_count && !event_count[OF_WRITER(me)] -> writer_asleep[me] = true };
        !writer_asleep[me]
     :: else
     fi
  fi;
  atomic { asked_count = true; event_count[OF_WRITER(me)] = true }
}

proctype writer(byte me) {
  byte s, old;
  bool held;
  do
  :: VERSION(publication[me]) == VM || (moved && me == kWriterA) -> break
  :: else ->
     if
     :: me == kWriterB && !moved -> ask_for_ownership()
     :: else ->
        writing[me] = true;
        if
        :: writer_word != me || moving -> end_write();
           (writer_word == me && !moving) || (moved && me == kWriterA) /* an owner asks again: a call, which answers */
        :: atomic { writer_word == me && !moving -> s = 1 - SLOT(publication[me]) };
           begin_write();
           publish()
        fi
     fi;
     atomic { s = 0; old = 0 }
  od
}

inline remove_subscriber(row) {
  subscribed[row] = false;
#ifndef OMIT_REMOVAL_EVENT
  bump_event_count();
  wake_board()
#endif
}

proctype daemon() {
end:
  do
  :: !alive && subscribed[1] -> remove_subscriber(1)
  od
}

proctype killer() {
  if
  :: atomic { alive = false; asleep[2] = false }
  :: true
  fi
}

init {
  atomic {
    slot_word[0] = 1; publication[kWriterA] = PUBLICATION(1, 0);
#ifdef LATE
    subscribed[1] = false;
#endif
    run reader(0);
#ifndef NO_THREAD1
    run reader(1);
#endif
#ifndef NO_THREAD2
    run reader(2);
#endif
    run writer(kWriterA);
#ifdef MOVE
    run writer(kWriterB);
#endif
    run daemon();
#ifdef DEATH
    run killer()
#endif
  }
}
