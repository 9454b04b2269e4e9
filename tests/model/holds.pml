/* Holds: who may touch a slot's bytes.

   Steps          acquire (newest, version=n), undo, release, subscribe, leave, remove_subscriber; begin_write with its
                  mark and scan, take_back, publish, drop.
   Bounded        one living writer to version VM; session 0 = threads 0 and 1 on one row, K0 reads each; session 1 =
                  thread 2, which subscribes late, reads K1 times and leaves, perhaps before its last release; a third
                  session leaves at any time. -DVERSIONS lets readers ask for the version before or after the newest.
   Not modelled   fences (fences.pml), the move of ownership and deaths (gpu_ownership.pml), sleeping (sleep.pml): a writer that
                  finds no slot tries again, at most TRIES times in all.
   Property       the bytes under a hold do not change; readers never go back; "gone" is said only of what is gone. */

#ifndef NS
#define NS 2
#endif
#ifndef VM
#define VM 4
#endif
#ifndef K0
#define K0 1
#endif
#ifndef K1
#define K1 1
#endif
#ifndef DROPS
#define DROPS 1
#endif
#ifndef TRIES
#define TRIES 6
#endif
#include "words.pml"

#define kTombstone 0 /* also an entry not yet taken: the scan passes over both */
#define kSession0 1
#define kSession1 2
#define kLeaver 3
#define ROW(t) ((t) / 2) /* thread 2 is session 1 */

/* writer row */ byte publication = PUBLICATION(1, 0), slot_word[NS];
/* reader rows */ byte holds[2];
/* board */ byte subscribers[3];
/* private to session 0 */ byte count[NS];
/* private to the writer */ bool page_mapped; /* of session 1 */
/* asked of the daemon */ bool leave_asked;
/* ghosts */ byte content[NS]; bool overwritten[VM + 2];

inline set_hold() { /* count and bit are one critical section */
  if
  :: atomic { t == 2 -> holds[1] = holds[1] | BIT(s) }
  :: atomic { t != 2 -> count[s]++; holds[0] = holds[0] | BIT(s) }
  fi
}

inline clear_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] & ~BIT(s) }
#ifdef OMIT_COUNT
  :: atomic { t != 2 -> holds[0] = holds[0] & ~BIT(s) }
#else
  :: atomic { t != 2 -> count[s]--; if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
#endif
  fi
}

inline undo() {
#ifdef OMIT_UNDO_DECREMENTS /* a failed try blindly clears */
  if
  :: atomic { t == 2 -> holds[1] = holds[1] & ~BIT(s) }
  :: atomic { t != 2 -> count[s]--; holds[0] = holds[0] & ~BIT(s) }
  fi
#else
  clear_hold()
#endif
}

#define release() clear_hold()

#ifdef OMIT_MARKED_MEANS_RETRY
#define FOUND(n) (slot_word[s] == n)
#else
#define FOUND(n) (NUMBER(slot_word[s]) == n) /* also when marked: the check fails, and acquire tries again */
#endif

inline find(n) { /* -> v, s; v = 0: not yet, or gone */
  s = 0;
  if
  :: n > VERSION(publication) -> skip
  :: else ->
     do
     :: atomic { s == NS -> assert(overwritten[n]); s = 0; break }
     :: atomic { s < NS && FOUND(n) -> v = n; break }
     :: atomic { s < NS && !FOUND(n) -> s++ }
     od
  fi
}

#if defined(OMIT_CHECK)
#define CHECK true
#elif defined(OMIT_CHECK_OF_MARK)
#define CHECK (NUMBER(slot_word[s]) == v)
#else
#define CHECK (slot_word[s] == v)
#endif

inline acquire(n) { /* n = 0: the newest. -> v, s; v = 0: nothing to hold */
  do
  :: v = 0;
     if
     :: atomic { n == 0 -> v = VERSION(publication); s = SLOT(publication) }
     :: n != 0 -> find(n); if :: v == 0 -> break :: v != 0 fi
     fi;
     set_hold();
     if :: atomic { CHECK -> break } :: else -> undo() fi
  od
}

inline subscribe() { subscribers[2] = kSession1 }

proctype reader(byte t) {
  byte s, v, n, last, reads;
#ifndef OMIT_SUBSCRIBE_FIRST
  if :: t == 2 -> subscribe() :: t != 2 fi;
#endif
  do
  :: reads == (t == 2 -> K1 : K0) -> break
  :: reads < (t == 2 -> K1 : K0) ->
     atomic {
       reads++;
#ifdef VERSIONS
       if :: true :: n = VERSION(publication) - 1 :: n = VERSION(publication) + 1 fi
#endif
     };
     acquire(n);
#ifdef OMIT_SUBSCRIBE_FIRST
     if :: t == 2 -> subscribe() :: t != 2 fi;
#endif
     if
     :: atomic { v == 0 -> n = 0 }
     :: v != 0 ->
        atomic {
          if :: n == 0 -> assert(v >= last); last = v :: else fi;
          if :: t == 2 && reads == K1 -> leave_asked = true :: true fi
        };
        assert(content[s] == v); /* any time after acquire, before release */
        release();
        atomic { s = 0; v = 0; n = 0 }
     fi
  od;
  if :: t == 2 -> leave_asked = true :: else fi
}

#ifdef OMIT_LIST_AFTER_MARK
#define LIST list
#else
#define LIST subscribers
#endif

inline scan() { /* -> held */
  do
  :: atomic { i == 3 -> i = 0; entry = 0; break }
  :: atomic { i < 3 -> entry = LIST[i] };
     atomic {
       if
       :: entry == kSession1 && !page_mapped -> page_mapped = true;
#ifndef OMIT_UNMAPPED_HOLDS
          held = true
#endif
       :: entry == kSession0 || (entry == kSession1 && page_mapped) ->
          if :: holds[entry - 1] & BIT(s) -> held = true :: else fi
       :: else
       fi;
       i++
     }
  od
}

inline mark() { slot_word[s] = old | kWriting }

inline take_back() { slot_word[s] = old }

inline begin_write() { /* -> held: the mark is taken back; else the lease may be handed out */
#ifdef OMIT_LIST_AFTER_MARK
  atomic { list[0] = subscribers[0]; list[1] = subscribers[1]; list[2] = subscribers[2] };
#endif
#ifdef OMIT_MARK_BEFORE_SCAN
  scan();
  mark();
#else
  mark();
  scan();
#endif
  if :: held -> take_back() :: !held fi
}

inline publish() {
#ifdef OMIT_SLOT_WORD_BEFORE_PUBLICATION
  publication = PUBLICATION(VERSION(publication) + 1, s);
  slot_word[s] = VERSION(publication)
#else
  slot_word[s] = VERSION(publication) + 1;
  publication = PUBLICATION(VERSION(publication) + 1, s)
#endif
}

inline drop() {
#ifdef OMIT_DROP_CLEARS
  slot_word[s] = old
#else
  slot_word[s] = 0
#endif
}

proctype writer() {
  byte s, old, i, entry, tries, drops;
  bool held;
#ifdef OMIT_LIST_AFTER_MARK
  byte list[3];
#endif
  do
  :: VERSION(publication) < VM && tries < TRIES ->
     atomic {
       tries++;
       if
       :: SLOT(publication) != 0 -> s = 0
       :: SLOT(publication) != 1 -> s = 1
#if NS == 3
       :: SLOT(publication) != 2 -> s = 2
#endif
       fi;
       old = slot_word[s]
     };
     begin_write();
     if
     :: !held ->
        atomic { content[s] = TORN; overwritten[NUMBER(old)] = true };
        if
        :: content[s] = VERSION(publication) + 1; publish()
        :: atomic { drops < DROPS -> drops++ }; drop()
        fi
     :: held
     fi;
     atomic { s = 0; old = 0; held = false }
  :: else -> break
  od
}

inline remove_subscriber(at) {
#ifdef OMIT_TOMBSTONE /* the entries behind it move up */
  subscribers[at] = subscribers[at + 1];
  subscribers[at + 1] = subscribers[at + 2];
  subscribers[at + 2] = kTombstone
#else
  subscribers[at] = kTombstone
#endif
}

proctype daemon() {
end:
  do
  :: subscribers[0] == kLeaver -> remove_subscriber(0)
#ifdef OMIT_LEAVE_WAITS_FOR_HOLDS
  :: leave_asked -> subscribers[2] = kTombstone; leave_asked = false
#else
  :: leave_asked && holds[1] == 0 -> subscribers[2] = kTombstone; leave_asked = false
#endif
  od
}

init {
  atomic {
    slot_word[0] = 1; content[0] = 1; overwritten[0] = true;
    subscribers[0] = kLeaver; subscribers[1] = kSession0;
    run reader(0);
#ifndef NO_THREAD1
    run reader(1);
#endif
#ifndef NO_THREAD2
    run reader(2);
#endif
    run writer(); run daemon()
  }
}
