/* Slots that are added and taken away while readers and the writer go on.

   Steps          the writer's clearing, its request (which the daemon may serve long after), mark, scan, check that the
                  slot exists, hand out, publish; a reader's hold, the same check, the check of the slot word; the
                  daemon's addition (place, then count) and closing (mark, look, count); a new writer's adoption from a
                  living row, or from the takeover row's after a death. With -DGPU a read goes on after its hold: the
                  record of its event, then the end of the hold; the daemon's look at the event.
   Bounded        slots 0 and 1 are regular, slot 2 is added and taken away; each addition has bytes of its own; two
                  writers, TRIES writes each, the second one takes over once; MAX_DEATHS of the first at any step; one
                  reader, READS times, of the newest version or, with -DWANTED=n, of version n.
   Not modelled   who else wants ownership (lock.pml), poison (host.pml), sleeping (sleep.pml), several readers; a
                  writer's work on a GPU, which is looked at likewise (gpu_takeover.pml has its events).
   Property       the bytes under a hold, in a read that goes on, or in writing are the array's, and those of the version; "gone" is said only of
                  what is gone. */

#define NS 3
#ifndef TRIES
#define TRIES 2
#endif
#ifndef READS
#define READS 1
#endif
#ifndef WANTED
#define WANTED 0
#endif
#ifndef MAX_DEATHS
#define MAX_DEATHS 0
#endif
#ifndef ADDITIONS
#define ADDITIONS 2
#endif
#include "words.pml"

#define AT(row, slot) ((row) * NS + (slot))
#define kTakeover 2
#define kNobody 15
#define kNumbers 8

/* writer rows, takeover page */ byte publication[3], highest_used[3], slot_word[3 * NS];
/* writer rows */ bool writing[2];
/* reader row */ bool holds[NS];
/* board */ byte slots = 2, place, writer_word; bool closing, moving;
/* asked of the daemon */ bool request[2], calls;
/* ghosts: bytes of slots 0 and 1, then of each addition */
byte content[2 + ADDITIONS + 1], additions;
bool is_ours[2 + ADDITIONS + 1], alive[2], handled, over[kNumbers], gone_for_ever[kNumbers];

#ifdef GPU
/* events of the reader's row */ bool at_work[NS];
/* ghosts: what the work touches */ byte work_bytes[NS], work_version[NS];
#define WORKS(slot) at_work[slot]
#else
#define WORKS(slot) false
#endif

#define BYTES(slot) ((slot) < 2 -> (slot) : place)
#ifdef OMIT_CLOSING_MARK
#define CLOSING false
#else
#define CLOSING closing
#endif
#define EXISTS(slot) ((slot) < 2 || (slots == 3 && !CLOSING))

/* ---- Writer. */

inline clear_and_ask() {
  if
  :: slots == 2 && !request[me] ->
#ifndef OMIT_CLEAR
     slot_word[AT(me, 2)] = 0;
#endif
     request[me] = true
  :: else
  fi
}

inline choose() { /* -> s, old */
  atomic {
    s = SLOT(publication[me]);
    if
    :: s != 0 -> s = 0
    :: s != 1 -> s = 1
    :: s != 2 && slots == 3 -> s = 2
    fi;
    old = slot_word[AT(me, s)]
  }
}

inline write() {
  if :: clear_and_ask() :: skip fi;
  choose();
  slot_word[AT(me, s)] = old | kWriting;
#ifdef OMIT_WRITER_CHECK
  exists = true;
#else
  exists = EXISTS(s);
#endif
  if
  :: !exists || holds[s] -> slot_word[AT(me, s)] = old
  :: else ->
     atomic {
       n = highest_used[me] + 1; highest_used[me] = n;
       if :: NUMBER(old) != 0 -> over[NUMBER(old)] = true :: else fi;
       slot_word[AT(me, s)] = old | kWriting | kHandedOut
     };
     atomic { !WORKS(s) -> bytes = BYTES(s); assert(is_ours[bytes]); content[bytes] = TORN }; /* its stream waits */
     atomic { assert(is_ours[bytes] && bytes == BYTES(s)); content[bytes] = n; slot_word[AT(me, s)] = n };
     atomic { publication[me] = PUBLICATION(n, s); assert(is_ours[BYTES(s)] && content[BYTES(s)] == n) }
  fi
}

inline adopt() { /* from the row `from`; its own may hold what an earlier tenure has left */
  known = slots;
  atomic { slot_word[AT(me, 0)] = NUMBER(slot_word[AT(from, 0)]); slot_word[AT(me, 1)] = NUMBER(slot_word[AT(from, 1)]) };
  if
  :: known == 3 -> slot_word[AT(me, 2)] = NUMBER(slot_word[AT(from, 2)])
  :: known == 2 ->
#ifdef OMIT_ADOPT_CLEARS
     skip
#else
     slot_word[AT(me, 2)] = 0
#endif
  fi;
  atomic { highest_used[me] = highest_used[from]; publication[me] = publication[from] }
}

proctype writer(byte me) {
  byte s, old, n, tries, bytes, from, known;
  bool exists;
  {
    if
    :: me == 1 -> /* what the daemon offers, it confirms */
       moving = true;
       atomic { writer_word == kTakeover || !writing[0] -> from = writer_word };
       do
       :: adopt();
          atomic {
            !calls; /* the daemon confirms it, in no other call of its own */
            if
            :: from == writer_word -> writer_word = me; moving = false; break
            :: else -> from = writer_word
            fi
          }
       od
    :: else
    fi;
    do
    :: tries == TRIES -> break
    :: tries < TRIES ->
       tries++; writing[me] = true;
       if
       :: writer_word == me && !moving -> write()
       :: else
       fi;
       atomic { writing[me] = false; s = 0; old = 0; n = 0; bytes = 0; exists = false }
    od
  } unless { atomic { !alive[me] -> skip } }
}

/* ---- Daemon. */

inline serve() { /* the request of w */
  request[w] = false;
  if
#ifdef OMIT_LOOK_AT_WORD
  :: atomic { writer_word == w && alive[w] && slots == 2 && additions < ADDITIONS ->
#else
  :: atomic { writer_word == w && alive[w] && slots == 2 && additions < ADDITIONS && slot_word[AT(w, 2)] == 0 ->
#endif
       additions++; is_ours[1 + additions] = true };
#ifdef OMIT_PLACE_BEFORE_COUNT
     slots = 3; place = 1 + additions
#else
     place = 1 + additions; slots = 3
#endif
  :: else
  fi
}

inline look() { /* -> used: the writer's row, then the holds */
  word = slot_word[AT(row, 2)];
  if
  :: word & kWriting -> used = true
  :: else ->
     atomic {
       current = publication[row];
       used = (VERSION(current) != 0 && SLOT(current) == 2);
#ifndef OMIT_VERSION_ABOVE_CURRENT
       used = used || NUMBER(word) > VERSION(current)
#endif
     }
  fi;
#ifdef OMIT_HOLDS_BEFORE_WORK
  if :: WORKS(2) -> used = true :: else fi;
#endif
#ifndef OMIT_LOOK_AT_HOLDS
  if :: holds[2] -> used = true :: else fi;
#endif
#if !defined(OMIT_LOOK_AT_WORK) && !defined(OMIT_HOLDS_BEFORE_WORK)
  if :: WORKS(2) -> used = true :: else fi
#else
  skip
#endif
}

inline take_away() {
  row = writer_word;
#ifdef OMIT_CLOSING_BEFORE_LOOK
  look(); closing = true;
#else
#ifdef OMIT_CLOSING_MARK
  slots = 2;
#else
  closing = true;
#endif
  look();
#endif
  if
  :: used -> atomic { slots = 3; closing = false }
  :: !used ->
     atomic {
       slots = 2; closing = false; is_ours[place] = false; content[place] = TORN;
       if :: NUMBER(slot_word[AT(row, 2)]) != 0 -> over[NUMBER(slot_word[AT(row, 2)])] = true :: else fi
     }
  fi;
  atomic { used = false; word = 0; current = 0; row = 0; calls = false }
}

#define SURVIVES(word) ((word) & kHandedOut -> 0 : NUMBER(word))

inline take_over() {
  atomic {
    s = 0;
    do
    :: s == slots -> break
    :: s < slots ->
       slot_word[AT(kTakeover, s)] = SURVIVES(slot_word[AT(0, s)]);
       if
       :: slot_word[AT(kTakeover, s)] > VERSION(publication[kTakeover]) -> publication[kTakeover] = PUBLICATION(slot_word[AT(kTakeover, s)], s)
       :: else
       fi;
       s++
    od;
    highest_used[kTakeover] = highest_used[0]; s = 0
  };
  atomic { writer_word = kTakeover; handled = true; calls = false }
}

proctype daemon() {
  byte w, row, word, current, s;
  bool used;
end:
  do
  :: atomic { request[0] -> w = 0 }; serve()
  :: atomic { request[1] -> w = 1 }; serve()
  :: atomic { slots == 3 -> calls = true }; take_away()
  :: atomic { !alive[0] && !handled && writer_word == 0 -> calls = true }; take_over()
  od
}

/* ---- Reader. */

#define kAcquired 1
#define kNotYet 2
#define kGone 3

inline find() { /* -> outcome, s, v */
#if WANTED == 0
  atomic {
    s = SLOT(publication[row]); v = VERSION(publication[row]);
    outcome = (v == 0 -> kNotYet : kAcquired)
  }
#else
  v = WANTED;
  if
  :: v > VERSION(publication[row]) -> outcome = kNotYet
  :: else ->
     atomic { known = slots; s = 0; outcome = kGone };
     do
     :: s == known -> break
     :: s < known ->
        atomic {
          if
          :: NUMBER(slot_word[AT(row, s)]) != v -> s++
          :: else -> outcome = (slot_word[AT(row, s)] & kHandedOut -> kGone : kAcquired); break
          fi
        }
     od;
     if :: s == known -> s = 0 :: else fi
  fi
#endif
}

inline check() { /* -> same */
#ifdef OMIT_READER_CHECK
  exists = true; same = (slot_word[AT(row, s)] == v)
#else
#ifdef OMIT_EXISTS_BEFORE_WORD
  same = (slot_word[AT(row, s)] == v); exists = EXISTS(s)
#else
  exists = EXISTS(s); same = (slot_word[AT(row, s)] == v)
#endif
#endif
}

inline record() { atomic { at_work[s] = true; work_bytes[s] = bytes; work_version[s] = v } }

inline end_read() {
#ifndef GPU
  atomic { assert(is_ours[bytes] && content[bytes] == v); holds[s] = false }
#else
#ifdef OMIT_RECORD_BEFORE_CLEAR
  holds[s] = false; record()
#else
  record(); holds[s] = false
#endif
#endif
}

#ifdef GPU
inline work() {
  atomic {
    assert(is_ours[work_bytes[i]] && content[work_bytes[i]] == work_version[i]);
    at_work[i] = false; work_bytes[i] = 0; work_version[i] = 0; i = 0
  }
}

proctype device() {
  byte i;
end:
  do
  :: atomic { at_work[0] -> i = 0 }; work()
  :: atomic { at_work[1] -> i = 1 }; work()
  :: atomic { at_work[2] -> i = 2 }; work()
  od
}
#endif

proctype reader() {
  byte s, v, row, outcome, known, reads, bytes;
  bool exists, same;
  do
  :: reads == READS -> break
  :: reads < READS ->
     row = writer_word;
     find();
     if
     :: outcome != kAcquired ->
        if
        :: atomic { writer_word == row ->
             if :: outcome == kGone -> assert(over[v] || MAX_DEATHS > 0); gone_for_ever[v] = true :: else fi; reads++ }
        :: else
        fi
     :: outcome == kAcquired ->
        holds[s] = true;
        check();
        if
        :: atomic { exists && same && writer_word == row ->
             bytes = BYTES(s); assert(is_ours[bytes] && content[bytes] == v && !gone_for_ever[v]); reads++ };
           end_read()
        :: else -> holds[s] = false
        fi
     fi;
     atomic { s = 0; v = 0; row = 0; outcome = 0; known = 0; bytes = 0; exists = false; same = false }
  od
}

proctype killer() { atomic { (MAX_DEATHS > 0) -> alive[0] = false } }

init {
  atomic { /* version 1 stands in slot 0; the second writer's row has what it left there long ago */
    slot_word[AT(0, 0)] = 1; publication[0] = PUBLICATION(1, 0); highest_used[0] = 1; content[0] = 1;
    slot_word[AT(1, 2)] = 1;
    is_ours[0] = true; is_ours[1] = true; alive[0] = true; alive[1] = true;
    run writer(0); run writer(1); run daemon(); run reader();
#ifdef GPU
    run device();
#endif
    if :: MAX_DEATHS > 0 -> run killer() :: else fi
  }
}
