/* The host path, as the code takes it: a write from its mark to its end, writers that change and die, and a reader.

   Steps          acquire (newest; with -DWANTED=n the version n), undo, release; begin (mark, scan, take_back, number,
                  hand out), publish, drop; ownership.pml, adopt; the daemon's take_over, with its poisoned numbers.
   Bounded        two writers, TRIES writes and ASKS calls for the lock each; MAX_DEATHS of them die at any step; a reader,
                  READS times; NS slots.
   Not modelled   several readers, rows that threads share, subscribers that come and go (holds.pml); three contenders,
                  leave (lock.pml); slots = 1 (single.pml); sleeping (sleep.pml); work on a GPU (fences.pml, gpu_ownership.pml).
   Property       the bytes under a hold are the version's and do not change; a reader never goes back, and always finds
                  what was published before it asked; a number is used once; "gone" is said of what was overwritten or
                  given up, "producer died" of what a death has torn, and neither is taken back. */

#define WRITERS 2
#ifndef NS
#define NS 2
#endif
#ifndef TRIES
#define TRIES 1
#endif
#ifndef ASKS
#define ASKS 1
#endif
#ifndef READS
#define READS 1
#endif
#ifndef WANTED
#define WANTED 0
#endif
#ifndef MAX_DEATHS
#define MAX_DEATHS 1
#endif
#include "words.pml"
#include "ownership.pml"

#define AT(row, slot) ((row) * NS + (slot))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define kNumbers (2 * TRIES + 3)

/* writer rows, takeover page */ byte publication[3], highest_used[3], slot_word[3 * NS];
/* reader row */ bool holds[NS];
/* board */ byte poisoned[NS];
/* ghosts */
byte content[NS], newest, using = kNobody, fate[kNumbers];
bool gone_for_ever[kNumbers];
#define kUnused 0
#define kBegun 1      /* the number is taken */
#define kHandedOver 2 /* its bytes are being written */
#define kStands 3
#define kOver 4 /* overwritten, or dropped */

/* ---- Writer. */

inline next_version() { /* -> n; within a tenure no slot word is above these */
  atomic {
    n = VERSION(publication[me]);
#ifndef OMIT_HIGHEST_USED
    n = MAX(n, highest_used[me]);
#endif
    n++
  }
}

inline choose() { /* -> s, old: any slot but the current one, if one stands */
  atomic {
    i = kNobody;
    if
    :: VERSION(publication[me]) != 0 && slot_word[AT(me, SLOT(publication[me]))] == VERSION(publication[me]) ->
       i = SLOT(publication[me])
    :: else
    fi;
    if :: i != 0 -> s = 0 :: i != 1 -> s = 1
#if NS == 3
    :: i != 2 -> s = 2
#endif
    fi;
    old = slot_word[AT(me, s)]; i = 0;
    assert(old < kHandedOut) /* between two writes no slot is marked: nobody could read it any more */
  }
}

inline take_number() {
  next_version();
  atomic { highest_used[me] = n; assert(fate[n] == kUnused); fate[n] = kBegun }
}

inline hand_out() {
#ifdef OMIT_HANDED_OUT
  atomic { fate[n] = kHandedOver; if :: old != 0 -> fate[old] = kOver :: else fi }
#else
  atomic {
    slot_word[AT(me, s)] = old | kWriting | kHandedOut; fate[n] = kHandedOver;
    if :: old != 0 -> fate[old] = kOver :: else fi
  }
#endif
}

inline write_bytes() { atomic { assert(using != s); content[s] = TORN } }

inline publish() {
#ifdef OMIT_SLOT_WORD_BEFORE_PUBLICATION
  atomic { content[s] = n; publication[me] = PUBLICATION(n, s); newest = n; assert(!gone_for_ever[n]) };
  atomic { slot_word[AT(me, s)] = n; fate[n] = kStands }
#else
  atomic { content[s] = n; slot_word[AT(me, s)] = n; fate[n] = kStands; assert(!gone_for_ever[n]) };
  atomic { publication[me] = PUBLICATION(n, s); newest = n }
#endif
}

inline drop() {
#ifdef OMIT_DROP_CLEARS
  atomic { slot_word[AT(me, s)] = old; fate[n] = kOver }
#else
  atomic { slot_word[AT(me, s)] = 0; fate[n] = kOver }
#endif
}

inline write() {
  choose();
#ifndef OMIT_MARK
  slot_word[AT(me, s)] = old | kWriting;
#endif
  if
#ifndef OMIT_SCAN
  :: holds[s] ->
#ifndef OMIT_TAKE_BACK
     slot_word[AT(me, s)] = old
#endif
#endif
  :: else ->
#ifdef OMIT_NUMBER_BEFORE_HANDED_OUT
     next_version(); hand_out(); highest_used[me] = n; write_bytes();
#else
     take_number();
#ifdef OMIT_HANDED_OUT_BEFORE_BYTES
     write_bytes(); hand_out();
#else
     hand_out(); write_bytes();
#endif
#endif
     if :: publish() :: drop() fi
  fi
}

#define ADOPTED(word) ((word) & kHandedOut -> 0 : NUMBER(word)) /* a mere mark is left out */

inline adopt() {
  atomic {
    slot_word[AT(me, 0)] = ADOPTED(slot_word[AT(from, 0)]); slot_word[AT(me, 1)] = ADOPTED(slot_word[AT(from, 1)]);
#if NS == 3
    slot_word[AT(me, 2)] = ADOPTED(slot_word[AT(from, 2)])
#endif
  };
  atomic {
#ifndef OMIT_ADOPT_HIGHEST
    highest_used[me] = highest_used[from];
#endif
#ifndef OMIT_NUMBERS_ABOVE_POISONED
    i = 0;
    do
    :: i == NS -> break
    :: i < NS -> highest_used[me] = MAX(highest_used[me], poisoned[i]); i++
    od;
    i = 0;
#endif
#ifndef OMIT_ADOPT_PUBLICATION
    publication[me] = publication[from]
#endif
  }
}

proctype writer(byte me) {
  byte s, old, n, i, tries, asks, from, number;
  bool mine;
  {
    do
    :: tries == TRIES -> break
    :: tries < TRIES ->
       may_begin();
       if
       :: mine -> tries++; write(); writing[me] = false
       :: !mine && asks < ASKS -> asks++; ask()
       :: !mine && asks == ASKS -> wait_limit_expired(); break
       fi;
       atomic { s = 0; old = 0; n = 0; mine = false }
    od;
    atomic { tries = 0; asks = 0; mine = false }
  } unless {
    atomic { !alive[me] -> s = 0; old = 0; n = 0; i = 0; tries = 0; asks = 0; from = 0; number = 0; mine = false }
  }
}

/* ---- Daemon. */

#if defined(OMIT_MARK_ALONE_STANDS)
#define SURVIVES(word) ((word) >= kHandedOut -> 0 : NUMBER(word))
#elif defined(OMIT_TORN_HAS_NO_VERSION)
#define SURVIVES(word) NUMBER(word)
#else
#define SURVIVES(word) ((word) & kHandedOut -> 0 : NUMBER(word))
#endif

inline take_over() { /* from the row of p */
#ifdef OMIT_TAKEOVER_BEFORE_WRITER_WORD
  atomic { writer_word = kTakeover; generation++; moving = false };
#endif
  atomic { highest = highest_used[p]; best = 0; best_slot = 0; torn = kNobody; i = 0 };
  do
  :: i == NS -> break
  :: i < NS ->
     atomic {
       slot_word[AT(kTakeover, i)] = SURVIVES(slot_word[AT(p, i)]);
       if :: slot_word[AT(p, i)] & kHandedOut -> torn = i :: else fi;
       if :: slot_word[AT(kTakeover, i)] > best -> best = slot_word[AT(kTakeover, i)]; best_slot = i :: else fi;
       i++
     }
  od;
  atomic {
#ifndef OMIT_TAKEOVER_HIGHEST
    highest_used[kTakeover] = highest;
#endif
    publication[kTakeover] = PUBLICATION(best, best_slot)
  };
#if !defined(OMIT_POISON) && !defined(OMIT_POISON_BEFORE_WRITER_WORD)
  atomic { if :: torn != kNobody -> poisoned[torn] = highest :: else fi };
#endif
#ifndef OMIT_TAKEOVER_BEFORE_WRITER_WORD
  atomic { writer_word = kTakeover; generation++; moving = false };
#endif
#ifdef OMIT_POISON_BEFORE_WRITER_WORD
  atomic { if :: torn != kNobody -> poisoned[torn] = highest :: else fi };
#endif
  atomic { i = 0; highest = 0; best = 0; best_slot = 0; torn = 0 }
}

proctype daemon() {
  byte p, i, highest, best, best_slot, torn;
  bool busy;
end:
  do
  :: atomic { request[0] != 0 -> p = 0 }; serve()
  :: atomic { request[1] != 0 -> p = 1 }; serve()
  :: atomic { !alive[0] && !handled[0] -> p = 0 }; reap()
  :: atomic { !alive[1] && !handled[1] -> p = 1 }; reap()
  od
}

/* ---- Reader. */

#define kAcquired 1
#define kNotYet 2
#define kGone 3
#define kProducerDied 4

inline look_for_poison() { /* -> found */
  atomic { found = false; i = 0 };
  do
  :: i == NS -> break
  :: i < NS && poisoned[i] == v -> found = true; break
  :: i < NS && poisoned[i] != v -> i++
  od;
  i = 0
}

inline given_up() { /* -> found: the number was begun, and neither stands nor is under way */
  found = (highest_used[row] >= v);
#ifndef OMIT_GIVEN_UP_LOOKS_AT_SLOTS
  i = 0;
  do
  :: i == NS || !found -> break
  :: i < NS && found -> atomic { word = slot_word[AT(row, i)]; found = !(word & kWriting) && NUMBER(word) != v; i++ }
  od;
  i = 0
#endif
}

#ifdef OMIT_MARK_MEANS_RETRY
#define COULD_COME_BACK(word) ((word) < kHandedOut)
#else
#define COULD_COME_BACK(word) (((word) & kHandedOut) == 0)
#endif

inline find_numbered() { /* -> outcome, s */
  v = WANTED;
  if
  :: v > VERSION(publication[row]) ->
     look_for_poison();
     if
     :: found -> outcome = kProducerDied
     :: !found -> given_up(); outcome = (found -> kGone : kNotYet)
     fi
  :: else ->
     s = 0; outcome = kBusy;
     do
     :: s == NS -> break
     :: s < NS ->
        atomic {
          word = slot_word[AT(row, s)];
          if
          :: NUMBER(word) != v -> s++
          :: NUMBER(word) == v -> outcome = (COULD_COME_BACK(word) -> kAcquired : kGone); break
          fi
        }
     od;
     if
     :: s == NS -> s = 0; look_for_poison(); outcome = (found -> kProducerDied : kGone)
     :: s < NS
     fi
  fi
}

inline find_newest() {
  atomic {
    s = SLOT(publication[row]); v = VERSION(publication[row]);
    outcome = (v == 0 -> kNotYet : kAcquired)
  }
}

#ifdef OMIT_RECHECK_OF_WRITER_WORD
#define STILL_THERE true
#elif defined(OMIT_GENERATION)
#define STILL_THERE (writer_word == row)
#else
#define STILL_THERE (writer_word == row && generation == seen)
#endif
#if defined(OMIT_CHECK)
#define CHECK true
#elif defined(OMIT_CHECK_OF_MARK)
#define CHECK (NUMBER(slot_word[AT(row, s)]) == v)
#else
#define CHECK (slot_word[AT(row, s)] == v)
#endif

inline acquire() { /* -> outcome, v, s */
  do
  :: atomic { row = writer_word; seen = generation };
#if WANTED == 0
     find_newest();
#else
     find_numbered();
#endif
     if
     :: outcome != kAcquired ->
        if :: atomic { STILL_THERE -> check_outcome(); break } :: else fi
     :: outcome == kAcquired ->
#ifndef OMIT_HOLD
        holds[s] = true;
#endif
        same = CHECK;
        if
        :: atomic { same && STILL_THERE -> using = s; assert(content[s] == v); check_outcome(); break }
        :: atomic { else -> holds[s] = false }
        fi
     fi
  od
}

/* What the outcome promises. A second death may tear the slot of the first one's: one number is poisoned for each slot. */
inline check_outcome() {
  if
  :: outcome == kAcquired -> assert(!gone_for_ever[v] && (WANTED != 0 || (v >= floor && v >= last))); last = v
  :: outcome == kNotYet -> assert(floor == 0 || WANTED > floor)
  :: outcome == kGone ->
     assert(fate[v] == kOver || (fate[v] == kBegun && deaths > 0) || deaths > 1); gone_for_ever[v] = true
  :: outcome == kProducerDied -> assert(fate[v] == kHandedOver && deaths > 0); gone_for_ever[v] = true
  fi
}

proctype reader() {
  byte s, v, row, seen, i, word, outcome, floor, last, reads;
  bool same, found;
  do
  :: reads == READS -> break
  :: reads < READS ->
     atomic { reads++; floor = newest };
     acquire();
     if
     :: outcome == kAcquired ->
        atomic { assert(content[s] == v); using = kNobody; holds[s] = false }
     :: outcome != kAcquired
     fi;
     atomic { s = 0; v = 0; row = 0; seen = 0; word = 0; outcome = 0; floor = 0; same = false; found = false }
  od
}

init {
  atomic { /* version 1 stands in slot 0, and its writer has gone */
    slot_word[AT(kTakeover, 0)] = 1; publication[kTakeover] = PUBLICATION(1, 0); highest_used[kTakeover] = 1;
    content[0] = 1; fate[1] = kStands; newest = 1;
    run monitor(); run writer(0); run writer(1); run daemon(); run reader();
    if :: MAX_DEATHS > 0 -> run killer() :: else fi
  }
}
