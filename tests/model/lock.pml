/* The lock on writing: among processes that all want to write, one at a time does (ownership.pml).

   Steps          begin's flag and check of the writer word, end_write; ask, adopt, confirm, cancel, an offer that expires,
                  leave; the daemon's takeover when the writer has exited.
   Bounded        WRITERS processes (2 or 3), TURNS writes and ASKS calls for the lock each; MAX_DEATHS of them die at any
                  step; whoever has finished may leave.
   Not modelled   slots, readers and what a write does (host.pml): a row is the number of the last write; the words of a
                  row that one process copies while nobody else may look. Sleeping (sleep.pml).
   Property       no two write at a time, no write is lost, none is numbered twice; no move waits for the dead, or for
                  nobody. */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef ASKS
#define ASKS 3
#endif
#ifndef MAX_DEATHS
#define MAX_DEATHS 1
#endif
#include "ownership.pml"

#define kOthers 77 /* a row that its process uses for another array, after it has left this one */

/* writer rows, takeover page */ byte last[WRITERS + 1];
/* ghost */ byte latest, at_work = kNobody;

inline adopt() { last[me] = last[from] }

inline write() {
  atomic { assert(at_work == kNobody || !alive[at_work]); at_work = me };
  atomic { assert(last[me] == latest); last[me]++; latest++ };
  at_work = kNobody
}

proctype writer(byte me) {
  byte turns, asks, from, number;
  bool mine;
  {
    do
    :: turns == TURNS -> break
    :: turns < TURNS ->
       may_begin();
       if
       :: mine -> write(); writing[me] = false; turns++; mine = false
       :: !mine && asks < ASKS -> asks++; ask()
       :: !mine && asks == ASKS -> wait_limit_expired(); break
       fi
    od;
    if
    :: call(kLeave, 0); last[me] = kOthers
    :: true
    fi
  } unless { atomic { !alive[me] -> turns = 0; asks = 0; from = 0; number = 0; mine = false } }
}

inline take_over() {
#ifndef OMIT_TAKEOVER
  last[kTakeover] = last[p];
#endif
  atomic { writer_word = kTakeover; generation++; moving = false }
}

proctype daemon() {
  byte p;
  bool busy;
end:
  do
  :: atomic { request[0] != 0 -> p = 0 }; serve()
  :: atomic { request[1] != 0 -> p = 1 }; serve()
  :: atomic { !alive[0] && !handled[0] -> p = 0 }; reap()
  :: atomic { !alive[1] && !handled[1] -> p = 1 }; reap()
#if WRITERS == 3
  :: atomic { request[2] != 0 -> p = 2 }; serve()
  :: atomic { !alive[2] && !handled[2] -> p = 2 }; reap()
#endif
  od
}

init {
  atomic {
    run monitor(); run writer(0); run writer(1);
#if WRITERS == 3
    run writer(2);
#endif
    run daemon();
    if :: MAX_DEATHS > 0 -> run killer() :: else fi
  }
}
