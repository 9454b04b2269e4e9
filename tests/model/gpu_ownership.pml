/* The lock on writing where the work is a GPU's: it moves between writers, and a dead writer has a takeover row (gpu_takeover.pml).

   Steps          begin_write with its check of ownership, hand out, publish, drop; ask_ownership and adopt_ownership; the daemon's
                  grant, offer, confirm, takeover, poison; acquire (newest, and -DVERSIONS: version=1 or 2), release before or
                  after the stream has run.
   Bounded        two writers with STREAMS streams each, TRIES leases each, versions to VM, MAX_MOVES moves, MAX_DROPS drops;
                  MAX_DEATHS of them die at any step; one reader with a stream, READS reads; two slots.
   Not modelled   several readers and their rows (holds.pml, fences.pml), sleeping, slots = 1 (single.pml), a reader's
                  death. Loads and stores by which one process prepares words that nobody reads yet are one step.
   Property       no bytes but the version's own are taken for it, unless ProducerDied is raised, or the read was
                  released before its stream ran and the version is poisoned by then; numbers are never
                  reused; only a death leaves no current version, and only where none was complete; no stream of a living writer waits for ever. */

#define NS 2
#ifndef VM
#define VM 4
#endif
#ifndef READS
#define READS 2
#endif
#ifndef MAX_MOVES
#define MAX_MOVES 1
#endif
#ifndef MAX_DEATHS
#define MAX_DEATHS 1
#endif
#ifndef MAX_DROPS
#define MAX_DROPS 1
#endif
#ifndef TRIES
#define TRIES 3
#endif
#ifndef STREAMS
#define STREAMS 1 /* of each writer, used in turn: so many versions may be under way */
#endif
#include "words.pml"

#define kTakeover 2 /* rows 0 and 1 are the writers' */
#define kNobody 9
#define AT(row, slot) ((row) * NS + (slot))
#define kOps (2 * TRIES + 2) /* operation 0 is long complete */

/* writer rows, takeover page */
byte publication[3], highest_used[3], slot_word[3 * NS]; bool writing[2];
/* of the slots: an event each, whoever writes there; the number of the operation behind it */ byte event[NS];
/* reader row */ byte holds, read_fence[NS];
/* board */ byte writer_word = kTakeover, generation; bool moving; byte poisoned[NS]; /* a set of numbers for each slot */
/* calls to the daemon, answers */ bool asked[2]; byte offered = kNobody; bool answered;
/* ghosts */
byte content[NS], owner[kOps], operations, published[VM + 2], reads_enqueued, reads_complete, using, using_fence;
bool complete[kOps], alive[2] = true, handled[2], released[3];
byte drops, deaths, moves;
/* the writers' streams: one operation in the queue of each; version 0 = a drop */
#define kStreams (2 * STREAMS)
byte op[kStreams], op_slot[kStreams], op_version[kStreams];
byte op_waits_for_write[kStreams], op_waits_for_slot[kStreams], op_waits_for_reads[kStreams];
#define STREAM_OF(writer) ((writer) * STREAMS + operations % STREAMS) /* the stream of its next lease */

#define PASSED(fence) (complete[fence] || released[owner[fence]]) /* what a stream sees */
#define MAX(a, b) ((a) > (b) -> (a) : (b))

proctype writing_stream(byte x) {
end:
  do
  :: atomic {
       alive[x / STREAMS] && op[x] != 0 && PASSED(op_waits_for_write[x]) && PASSED(op_waits_for_slot[x]) &&
       reads_complete >= op_waits_for_reads[x] ->
       assert(!(using == op_slot[x] + 1 && complete[using_fence]));
       content[op_slot[x]] = TORN
     };
     atomic {
       if
       :: alive[x / STREAMS] ->
          if :: op_version[x] != 0 -> content[op_slot[x]] = op_version[x] :: else fi;
          complete[op[x]] = true;
          op[x] = 0; op_slot[x] = 0; op_version[x] = 0;
          op_waits_for_write[x] = 0; op_waits_for_slot[x] = 0; op_waits_for_reads[x] = 0
       :: else -> break /* its work died with its process */
       fi
     }
  od
}

inline adopt_ownership() {
  atomic {
    slot_word[AT(me, 0)] = slot_word[AT(source, 0)]; slot_word[AT(me, 1)] = slot_word[AT(source, 1)];
    publication[me] = publication[source]
  };
  atomic {
#ifndef OMIT_ADOPT_HIGHEST
    highest_used[me] = highest_used[source];
#endif
    answered = true
  }
}

inline ask_ownership() { /* a call: returns with ownership, or when there are no more moves */
  atomic { if :: writer_word != me -> asked[me] = true :: else fi };
  if
  :: atomic { offered == me -> source = writer_word }; adopt_ownership(); (offered != me || !answered) /* confirmed */
  :: writer_word == me && !moving
  :: writer_word != me && !asked[me] && offered != me && moves < MAX_MOVES /* moved away meanwhile: asks again */
  :: atomic { moves == MAX_MOVES && writer_word != me && offered != me -> tries = TRIES }
  fi
}

inline enqueue(version) { /* the lease's work on the stream, and its signal */
  x = STREAM_OF(me);
  operations++; op[x] = operations; owner[operations] = me; op_slot[x] = s; op_version[x] = version;
#ifndef OMIT_WAIT_FOR_CURRENT
  op_waits_for_write[x] = event[SLOT(publication[me])];
#endif
  op_waits_for_slot[x] = event[s]; op_waits_for_reads[x] = read_fence[s];
  mine = operations; x = 0
}

inline publish() {
#ifdef OMIT_EVENT_BEFORE_SLOT_WORD /* the takeover row takes the slot's last record for this version's */
  slot_word[AT(me, s)] = n;
  event[s] = mine;
#else
  event[s] = mine;
  slot_word[AT(me, s)] = n;
#endif
  atomic { publication[me] = PUBLICATION(n, s); published[n]++; assert(published[n] == 1) }
}

inline drop() { event[s] = mine; slot_word[AT(me, s)] = 0 }

#ifdef OMIT_HIGHEST_USED
#define NEXT (VERSION(publication[me]) + 1)
#else
#define NEXT (MAX(VERSION(publication[me]), highest_used[me]) + 1) /* within a tenure no slot word is above these */
#endif

#ifdef OMIT_HANDED_OUT
#define hand_out() skip
#else
inline hand_out() { slot_word[AT(me, s)] = old | kWriting | kHandedOut }
#endif

inline begin_write() { /* -> handed_out; publishes or drops */
  atomic {
    old = slot_word[AT(me, s)]; n = NEXT;
    slot_word[AT(me, s)] = old | kWriting /* mark */
  };
  if
  :: holds & BIT(s) -> slot_word[AT(me, s)] = old /* take_back */
  :: else ->
     if
     :: n <= VM && op[STREAM_OF(me)] == 0 -> hand_out(); atomic { enqueue(n) }; publish()
     :: atomic { drops < MAX_DROPS && op[STREAM_OF(me)] == 0 -> drops++ }; hand_out(); atomic { enqueue(0) }; drop()
     :: n > VM && drops == MAX_DROPS -> slot_word[AT(me, s)] = old
     fi
  fi
}

proctype writer(byte me) {
  byte s, n, old, mine, tries, source, x;
  {
    do
    :: tries >= TRIES -> break
    :: tries < TRIES ->
#ifdef OMIT_WRITING_BEFORE_CHECK
       if
       :: writer_word != me || moving -> ask_ownership()
       :: else -> writing[me] = true;
#else
       writing[me] = true;
       if
       :: atomic { writer_word != me || moving -> writing[me] = false }; ask_ownership()
       :: else ->
#endif
          atomic {
            tries++;
            if
            :: SLOT(publication[me]) != 0 || VERSION(publication[me]) == 0 -> s = 0
            :: SLOT(publication[me]) != 1 || VERSION(publication[me]) == 0 -> s = 1
            fi
          };
          begin_write();
          atomic { s = 0; n = 0; old = 0; mine = 0; writing[me] = false }
       fi
    od
  } unless { !alive[me] }
}

#include "gpu_takeover.pml"

#define ALL_COMPLETE (complete[event[0]] && complete[event[1]])

inline grant() { /* asked by p */
  moving = true;
  if
  :: writer_word == kTakeover
#ifndef OMIT_MOVE_WAITS_FOR_WRITING
  :: writer_word != kTakeover -> !alive[writer_word] || !writing[writer_word];
#else
  :: writer_word != kTakeover ->
#endif
#ifndef OMIT_MOVE_WAITS_FOR_FENCES
     !alive[writer_word] || ALL_COMPLETE;
#endif
     if :: !alive[writer_word] -> takeover(writer_word); moving = true :: else fi
  fi
}

inline offer() { atomic { offered = p; answered = false }; answered || !alive[p] }

inline confirm() {
  atomic {
    if :: alive[p] -> writer_word = p; generation++; asked[p] = false :: else fi; /* it died first: ownership stays where it is */
    moving = false; moves++; offered = kNobody; answered = false; p = kNobody
  }
}

#define MAY_MOVE(to) (asked[to] && writer_word != to && alive[to])

proctype daemon() {
  byte p = kNobody, r, i, v, word, best, best_slot, highest;
end:
  do
  :: writer_word != kTakeover && !alive[writer_word] -> takeover(writer_word)
  :: atomic { !alive[0] && !handled[0] && writer_word != 0 -> released[0] = true; handled[0] = true }
  :: atomic { !alive[1] && !handled[1] && writer_word != 1 -> released[1] = true; handled[1] = true }
  :: atomic {
       (MAY_MOVE(0) || MAY_MOVE(1)) && moves < MAX_MOVES && (writer_word == kTakeover || alive[writer_word]) ->
       if :: MAY_MOVE(0) -> p = 0 :: MAY_MOVE(1) -> p = 1 fi;
       asked[p] = false
     };
     grant(); offer(); confirm()
  od
}

inline find(wanted) {
  v = 0; s = 0;
  if
  :: wanted > VERSION(publication[row]) -> skip
  :: else ->
     do
     :: atomic { s == NS -> s = 0; break }
     :: atomic { s < NS && NUMBER(slot_word[AT(row, s)]) == wanted -> v = wanted; break }
     :: atomic { s < NS && NUMBER(slot_word[AT(row, s)]) != wanted -> s++ }
     od
  fi
}

#ifdef OMIT_RECHECK_OF_WRITER_WORD
#define STILL_THERE true
#else
#define STILL_THERE (generation == seen) /* one word on the board: writer_word, generation */
#endif

inline acquire(wanted) { /* -> v, s; v = 0: nothing */
  do
  :: atomic { row = writer_word; seen = generation };
     if
     :: atomic { wanted == 0 -> s = SLOT(publication[row]); v = VERSION(publication[row]) }
     :: wanted != 0 -> find(wanted)
     fi;
     if :: v == 0 -> break :: else fi;
     holds = holds | BIT(s);
     ok = (slot_word[AT(row, s)] == v);
     if
     :: atomic { ok && STILL_THERE -> using = s + 1; using_fence = event[s]; break }
     :: else -> atomic { holds = holds & ~BIT(s); v = 0; s = 0 } /* undo */
     fi
  od
}

#define POISONED ((poisoned[s] & BIT(v)) != 0)

/* ProducerDied, or v's own bytes */
inline verify() { if :: POISONED -> last = 0 :: else -> assert(!bad) fi }

inline release() { atomic { using = 0; using_fence = 0; read_fence[s] = reads_enqueued }; holds = holds & ~BIT(s) }

inline stream_reads() { atomic { PASSED(fence) -> bad = (content[s] != v); reads_complete = reads_enqueued } }

proctype reader() {
  byte s, v, row, seen, fence, reads, last, wanted;
  bool ok, bad;
  do
  :: reads == READS -> break
  :: reads < READS ->
     reads++;
#ifdef VERSIONS
     if :: wanted = 0 :: wanted = 1 :: wanted = 2 fi;
#endif
     acquire(wanted);
     if
     :: v == 0 -> assert(wanted != 0 || (deaths > 0 && (drops > 0 || STREAMS > 1)))
     :: else ->
        atomic {
          fence = using_fence; reads_enqueued++;
          if :: wanted == 0 -> assert(v >= last); last = v :: else fi
        };
        if
        :: stream_reads(); release(); verify() /* a host wait before the release */
        :: release();                          /* the stream runs later: */
           if :: POISONED -> last = 0 :: else fi;
           stream_reads();
           assert(!bad || POISONED) /* nobody tells; a read of that version by its number would */
        fi
     fi;
     atomic { s = 0; v = 0; row = 0; seen = 0; fence = 0; ok = false; bad = false; wanted = 0 }
  od
}

proctype killer() {
  do
  :: atomic { deaths < MAX_DEATHS && alive[0] -> alive[0] = false; deaths++ }
  :: atomic { deaths < MAX_DEATHS && alive[1] -> alive[1] = false; deaths++ }
  :: break
  od
}

proctype monitor() { timeout -> assert((op[0] == 0 || !alive[0]) && (op[kStreams - 1] == 0 || !alive[1])) }

init {
  atomic {
    content[0] = 1; complete[0] = true; published[1] = 1; owner[0] = kTakeover; writer_word = 0;
    slot_word[0] = 1; publication[0] = PUBLICATION(1, 0); highest_used[0] = 1;
    run monitor(); run writer(0); run writer(1); run writing_stream(0); run writing_stream(1);
#if STREAMS == 2
    run writing_stream(2); run writing_stream(3);
#endif
    run reader(); run daemon();
    if :: MAX_DEATHS > 0 -> run killer() :: else fi
  }
}
