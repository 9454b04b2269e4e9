/* slots = 1: readers and the writer exclude each other.

   Steps          begin_write (mark, wait for the holds to go), take_back at a deadline, hand out, publish, drop; acquire,
                  undo, release, wait_newer; takeover of a row with one slot; adopt_ownership of the next writer.
   Bounded        writer A, which may die at any step, drops once and runs into its deadline once; writer B, which gets the
                  ownership from the takeover row and writes fully (with -DNO_WRITER_B it does not run); versions to VM; two
                  readers with rows of their own (-DONE_READER). A count is one flag for each process that waits for it,
                  as in sleep.pml.
   Not modelled   fences (fences.pml with -DNS=1), threads that share a row, the move from a living writer.
   Property       the bytes under a hold do not change; nobody sleeps on while there is something to read or to raise; a death before the lease
                  was handed out keeps the current version, a death afterwards leaves none but its number. */

#define NS 1
#ifndef VM
#define VM 3
#endif
#include "words.pml"

#define kWriterA 0
#define kWriterB 1
#define kTakeover 2

/* writer rows, takeover page */ byte slot_word[3], version[3]; bool wanted[3]; /* one slot: publication = version */
/* reader rows */ bool holds[2], sleeping[2];
/* board */ byte writer_word = kWriterA;
/* counts: bumped since it was loaded; true also while nobody compares */
bool publish_count[6] = true; /* of row r, for reader t: 2 * r + t */
bool release_count[4] = true; /* of reader t, for writer w: 2 * t + w */
bool event_count[4] = true; /* for the readers, then for the writers */
/* the kernel's */ bool asleep[2], writer_asleep; byte sleeps_on[2]; /* whose publish count */
/* takeover page */ byte highest_used = 1;
/* ghosts */ byte content = 1, last[2]; bool alive = true, handed_out, dropped, gave_up;

inline wake_readers() {
  if :: atomic { sleeping[0] -> if :: sleeps_on[0] == me -> asleep[0] = false :: else fi } :: !sleeping[0] fi;
  if :: atomic { sleeping[1] -> if :: sleeps_on[1] == me -> asleep[1] = false :: else fi } :: !sleeping[1] fi
}

#define OF(row, waiter) (2 * (row) + (waiter))
#define OF_WRITER(w) (2 + (w))

inline clear_hold() { /* release and undo */
  holds[t] = false;
  w = writer_word;
  if
  :: wanted[w] -> atomic { release_count[OF(t, 0)] = true; release_count[OF(t, 1)] = true }; writer_asleep = false
  :: !wanted[w]
  fi
}

#define READABLE (version[w] > last[t] && (slot_word[w] & kWriting) == 0)
#define ABORTED (slot_word[w] == 0) /* no current version: ProducerDied, WriteAborted */

inline wait_newer() {
  w = writer_word;
  atomic { publish_count[OF(w, t)] = false; event_count[t] = false };
  sleeping[t] = true;
  if
  :: writer_word != w || READABLE || ABORTED
  :: else ->
     atomic {
       if
       :: !publish_count[OF(w, t)] && !event_count[t] -> asleep[t] = true; sleeps_on[t] = w
       :: else
       fi
     };
end_asleep: /* allowed, unless the monitor sees what it should have been woken for */
     atomic { !asleep[t] -> sleeps_on[t] = 0 }
  fi;
  atomic { sleeping[t] = false; publish_count[OF(w, t)] = true; event_count[t] = true }
}

proctype reader(byte t) {
  byte v, w;
  do
  :: last[t] == VM -> break
  :: last[t] < VM ->
     w = writer_word;
     v = version[w];
     if
     :: v > last[t] ->
        holds[t] = true;
        if
        :: atomic { slot_word[w] == v && writer_word == w -> last[t] = v };
           assert(content == v);
           clear_hold()
        :: atomic { slot_word[w] == 0 && writer_word == w -> last[t] = VM }; /* ProducerDied, WriteAborted: the program gives up */
           clear_hold()
        :: else -> clear_hold(); wait_newer()
        fi
     :: v <= last[t] ->
        if
        :: atomic { slot_word[w] == 0 && writer_word == w -> last[t] = VM } /* likewise */
        :: else -> wait_newer()
        fi
     fi;
     atomic { v = 0; w = 0 }
  od
}

#define HELD (holds[0] || holds[1])

inline wake_after_change() {
  atomic { publish_count[OF(me, 0)] = true; publish_count[OF(me, 1)] = true };
  wake_readers()
}

inline take_back() {
  slot_word[me] = old;
#ifndef OMIT_TAKE_BACK_WAKES
  wake_after_change()
#endif
}

inline wait_slot() {
  wanted[me] = true;
  atomic { release_count[OF(0, me)] = false; release_count[OF(1, me)] = false; event_count[OF_WRITER(me)] = false };
  if
  :: holds[0] || holds[1] ->
     atomic {
       if
       :: !release_count[OF(0, me)] && !release_count[OF(1, me)] && !event_count[OF_WRITER(me)] -> writer_asleep = true
       :: else
       fi
     };
     !writer_asleep
  :: else
  fi;
  atomic {
    wanted[me] = false;
    release_count[OF(0, me)] = true; release_count[OF(1, me)] = true; event_count[OF_WRITER(me)] = true
  }
}

inline begin_write() { /* -> marked: the lease is handed out; else the deadline came first */
  atomic { old = slot_word[me]; slot_word[me] = old | kWriting; marked = true };
  do
  :: !holds[0] -> if :: !holds[1] -> break :: holds[1] -> skip fi; wait_slot()
  :: holds[0] -> wait_slot()
  :: atomic { HELD && !gave_up -> gave_up = true; marked = false }; take_back(); break
  od;
  if
  :: marked ->
#if defined(OMIT_HANDED_OUT_FIRST)
     content = TORN;
     atomic { slot_word[me] = old | kWriting | kHandedOut; handed_out = true }
#else
     atomic { slot_word[me] = old | kWriting | kHandedOut; handed_out = true };
     content = TORN
#endif
  :: !marked
  fi
}

inline publish() {
  content = n;
  atomic { slot_word[me] = n; handed_out = false };
  version[me] = n;
  wake_after_change()
}

inline drop() {
#ifdef OMIT_DROP_CLEARS
  atomic { slot_word[me] = NUMBER(old); handed_out = false };
#else
  atomic { slot_word[me] = 0; handed_out = false };
#endif
#ifndef OMIT_DROP_WAKES
  wake_after_change()
#endif
}

proctype writer(byte me) {
  byte n, old;
  bool marked;
end:
  if /* B is told that ownership is its own: a call */
  :: me == kWriterA -> n = 2
  :: atomic { me == kWriterB && writer_word == kWriterB -> n = NUMBER(highest_used) + 1 }
  fi;
  {
    do
    :: n > VM -> break
    :: n <= VM ->
       begin_write();
       if
       :: !marked /* NoFreeSlot */
       :: atomic { marked && me == kWriterA && !dropped -> dropped = true }; drop()
       :: marked -> publish(); n++
       fi;
       if :: atomic { old = 0; marked = false } :: atomic { old = 0; marked = false; n = VM + 1 } fi /* the program may end after any of them */
    od
  } unless { me == kWriterA && !alive }
}

inline bump_event_count() { /* after each change of the writer word */
#ifdef OMIT_WRITER_EVENT
  skip
#else
  atomic { event_count[0] = true; event_count[1] = true; event_count[2] = true; event_count[3] = true };
  atomic { asleep[0] = false; asleep[1] = false; writer_asleep = false }
#endif
}

inline takeover() {
  atomic {
    word = slot_word[kWriterA];
#ifdef OMIT_HANDED_OUT
    if :: word & kWriting -> word = NUMBER(word) :: else fi;
#elif defined(OMIT_RESTORE)
    if :: word & kWriting -> word = 0 :: else fi;
#else
    if
    :: (word & kWriting) && (word & kHandedOut) -> word = 0
    :: (word & kWriting) && !(word & kHandedOut) -> word = NUMBER(word) /* the mark alone: its bytes stand */
    :: else
    fi;
#endif
    assert(word == 0 || content == word);            /* a death after the hand-out leaves no current version */
    assert(word != 0 || handed_out || NUMBER(slot_word[kWriterA]) == 0); /* a death before it keeps the current one */
    highest_used = (version[kWriterA] > NUMBER(slot_word[kWriterA]) -> version[kWriterA] : NUMBER(slot_word[kWriterA]));
    slot_word[kTakeover] = word;
#ifdef OMIT_TAKEOVER_NAMES_LOST
    version[kTakeover] = word;
#else
    version[kTakeover] = (word > version[kWriterA] -> word : version[kWriterA]);
#endif
    assert(version[kTakeover] >= version[kWriterA]); /* nobody takes what is older elsewhere for the newest */
    word = 0
  };
  writer_word = kTakeover;
  bump_event_count()
}

inline adopt_ownership() { atomic { slot_word[kWriterB] = slot_word[kTakeover]; version[kWriterB] = version[kTakeover] } }

proctype daemon() {
  byte word;
end:
  !alive;
  takeover();
  adopt_ownership();
  writer_word = kWriterB;
  bump_event_count()
}

proctype killer() {
  if
  :: atomic { alive = false; writer_asleep = false }
  :: true
  fi
}

#define MISSED(t)                                                                                   \
  (asleep[t] && (slot_word[writer_word] == 0 ||                                                     \
                 (version[writer_word] > last[t] && (slot_word[writer_word] & kWriting) == 0)))

proctype monitor() { timeout -> assert(!MISSED(0) && !MISSED(1)) }

init {
  atomic {
    slot_word[kWriterA] = 1; version[kWriterA] = 1;
    run reader(0);
#ifndef ONE_READER
    run reader(1);
#endif
    run writer(kWriterA);
#ifndef NO_WRITER_B
    run writer(kWriterB);
#endif
    run daemon(); run killer(); run monitor()
  }
}
